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
export declare function toBucket(field: string, value: unknown): string;
/** A partition; what begins with U+001F is the server's own. */
export declare function toPartition(field: string, value: unknown): string;
/** What proves who calls. No error repeats it, and a header can hold it. */
export declare function toSecret(field: string, value: unknown): string;
/** Whether it is a number of milliseconds in these bounds, which are among them. */
export declare function isMilliseconds(value: unknown, least: number, most: number): value is number;
/** A number that JSON can hold: for the others it has null, which would be the default. */
export declare function toNumber(field: string, value: unknown): number;
/** An integer that JavaScript holds exactly. */
export declare function toInteger(field: string, value: unknown): number;
export declare function toBoolean(field: string, value: unknown): boolean;
/** What can be called; what it takes and gives shows only then. */
export declare function toFunction<F>(field: string, value: unknown): F;
/** The check of one value: it returns the value as it is used, and throws for one that cannot be meant. */
export type Check<T> = (field: string, value: unknown) => T;
/** The members that an object may have, each with its check. */
export type Members = Readonly<Record<string, Check<unknown>>>;
/** An object of which each member was checked. */
export type Checked<M extends Members> = {
    [N in keyof M]: ReturnType<M[N]>;
};
/** As the check, but undefined is a member that is absent. Null is none: it is refused. */
export declare function optional<T>(check: Check<T>): Check<T | undefined>;
/**
 * Options, copied: with a name that is not among these members something was meant that would not happen.
 * Errors begin with `prefix`.
 */
export declare function toOptions<M extends Members>(value: unknown, members: M, prefix?: string): Checked<M>;
/** A list of objects, copied. They may have the members in `passedOver`, too, which are not looked at. */
export declare function toList<M extends Members>(members: M, passedOver: readonly string[]): Check<Checked<M>[]>;
/** Throws for a name that is unknown. `prefix` is what the name stands below in errors. */
export declare function checkNames(value: object, names: readonly string[], prefix: string, what: string): void;
