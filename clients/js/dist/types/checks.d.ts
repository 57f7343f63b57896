/** The error for a value that breaks a rule. */
export declare function broken(field: string, value: unknown, rule: string): TypeError;
/** A value as errors show it. */
export declare function shown(value: unknown): string;
/** A string, which may have lone surrogates. */
export declare function toText(field: string, value: unknown): string;
/** A string as all of the protocol are but the names of resources. */
export declare function toWellFormed(field: string, value: unknown): string;
/** A text as short as the protocol has it: the server would refuse a longer one again and again. */
export declare function fitting(field: string, value: unknown, longest?: number): string;
/** The name of a bucket. */
export declare function toBucket(value: unknown): string;
/** A partition; what begins with U+001F is the server's own. */
export declare function toPartition(value: unknown): string;
/** Whether it is a number of milliseconds in these bounds, which are among them. */
export declare function isMilliseconds(value: unknown, least: number, most: number): value is number;
/** A function if there is one. */
export declare function checkFunction(field: string, value: unknown): void;
export declare function toFlag(field: string, value: boolean | undefined, otherwise: boolean): boolean;
/** The JSON text of a body. What JSON cannot hold would be left out or become null, and so its default. */
export declare function toJson(body: unknown): string;
