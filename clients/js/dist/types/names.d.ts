/** Whether the specification reserves this name: those that begin with U+002D "-". */
export declare function isReserved(name: string): boolean;
/** Compares two names by code units, which is the one strict order in which several locks are taken. */
export declare function compareNames(a: string, b: string): number;
/**
 * How many bytes a text takes as UTF-8; never less than the truth. Lone surrogates do not occur in JSON that
 * we write.
 */
export declare function utf8Length(text: string): number;
