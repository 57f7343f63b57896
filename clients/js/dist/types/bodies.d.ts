/** The content of a request. */
export interface RequestFields {
    readonly name: string;
    readonly mode: 'exclusive' | 'shared';
    readonly ifAvailable: boolean;
    readonly steal: boolean;
    readonly metadata: string | undefined;
    readonly maxHold: number | undefined;
}
export declare function joinBody(agent: number, clientId: string): string;
export declare function requestBody(id: number, agent: number, fields: RequestFields): string;
/**
 * Asks for a lock that was granted in an earlier epoch, with what its grant said; `maxHold` is what is left
 * of it.
 */
export declare function reclaimBody(id: number, agent: number, fields: RequestFields, token: number, ticket: string): string;
export declare function abortBody(id: number): string;
export declare function releaseBody(id: number): string;
export declare function queryBody(id: number): string;
export declare function pongBody(n: number): string;
/** All that is still held of the session that the hello wanted to resume has been asked for. */
export declare const RECLAIMED_BODY = "{\"type\":\"reclaimed\"";
export declare const ACK_BODY = "{\"type\":\"ack\"";
export declare const BYE_BODY = "{\"type\":\"bye\"";
/** A frame without its closing brace, with its number, unless that is 0. */
export declare function numbered(body: string, seq: number): string;
/** The frame with its closing brace, and with the highest number received. */
export declare function acknowledging(body: string, ack: number): string;
/** What a resume presents. */
export interface Identity {
    readonly session: string;
    readonly secret: string;
    /** How many numbered frames of the server have been processed. */
    readonly received: Counter;
    /** How many hellos have presented it: by that the server tells a late one from a newer one. */
    readonly attempts: Counter;
}
/** A number that threads may share. */
export type Counter = Float64Array & {
    0: number;
};
/** The first frame of a connection. Each that presents a session counts as an attempt. */
export declare function helloText(credential: string | undefined, identity: Identity | undefined): string;
