/** Defines a read-only attribute as WebIDL does. */
export declare function defineAccessor(prototype: object, name: string, get: (this: unknown) => unknown): void;
/** Defines a class or object on the global object as WebIDL does for interfaces. */
export declare function defineGlobal(name: string, value: unknown): void;
/**
 * The check that `this` is a platform object with this prototype: one of its own accessors throws a TypeError
 * for others.
 */
export declare function brandCheck(prototype: object, accessor?: string): (value: unknown) => void;
/**
 * Runs a method on an object that is not of this realm's class. A manager of another realm of this page is as
 * good as one of ours; its own realm distinguishes it from an impostor. Its method is known by its source
 * text, which is that of ours.
 */
export declare function ofOtherRealm(object: unknown, own: unknown, method: string, args: ArrayLike<unknown>): Promise<never>;
/**
 * Repeats members on the prototype of a subclass, where a checker that starts from an object looks for them
 * first.
 */
export declare function repeatMembers(from: object, to: object, names: readonly string[]): void;
