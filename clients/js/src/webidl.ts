// What it takes to look like a platform object.

/** Defines a read-only attribute as WebIDL does. */
export function defineAccessor(prototype: object, name: string, get: (this: unknown) => unknown): void {
  Object.defineProperty(get, 'name', { value: `get ${name}`, configurable: true });
  Object.defineProperty(prototype, name, { get: withoutPrototype(get), enumerable: true, configurable: true });
}

/** Defines a class or object on the global object as WebIDL does for interfaces. */
export function defineGlobal(name: string, value: unknown): void {
  Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}

/**
 * The check that `this` is a platform object with this prototype: one of its own accessors throws a TypeError
 * for others.
 */
export function brandCheck(prototype: object, accessor?: string): (value: unknown) => void {
  const descriptors = Object.getOwnPropertyDescriptors(prototype) as Record<string, PropertyDescriptor>;
  const probe = accessor === undefined ? anyGetter(descriptors) : descriptors[accessor]?.get;
  return (value) => {
    if (value === undefined || value === null) throw new TypeError('Illegal invocation');
    if (probe) probe.call(value);
    else if (value !== (globalThis as { navigator?: object }).navigator) throw new TypeError('Illegal invocation');
  };
}

/**
 * Runs a method on an object that is not of this realm's class. A manager of another realm of this page is as
 * good as one of ours; its own realm distinguishes it from an impostor. Its method is known by its source
 * text, which is that of ours.
 */
export async function ofOtherRealm(
  object: unknown,
  own: unknown,
  method: string,
  args: ArrayLike<unknown>,
): Promise<never> {
  const theirs: unknown = Object.getPrototypeOf(Object(object))?.[method];
  const isTwin = typeof theirs === 'function' && theirs !== own && sourceOf(theirs) === sourceOf(own);
  if (isTwin) return Reflect.apply(theirs, object, args) as Promise<never>;
  throw new TypeError(`Failed to execute '${method}' on 'LockManager': Illegal invocation`);
}

function sourceOf(callable: unknown): string {
  return Function.prototype.toString.call(callable);
}

function anyGetter(descriptors: Record<string, PropertyDescriptor>): (() => unknown) | undefined {
  return (descriptors.userAgent ?? descriptors.hardwareConcurrency)?.get;
}

/** Accessors of platform objects have no `prototype` and cannot be constructed. */
function withoutPrototype(get: (this: unknown) => unknown): (this: unknown) => unknown {
  const { accessor } = {
    accessor(this: unknown): unknown {
      return get.call(this);
    },
  };
  return Object.defineProperty(accessor, 'name', { value: get.name, configurable: true });
}

/**
 * Repeats members on the prototype of a subclass, where a checker that starts from an object looks for them
 * first.
 */
export function repeatMembers(from: object, to: object, names: readonly string[]): void {
  for (const name of names) Object.defineProperty(to, name, Object.getOwnPropertyDescriptor(from, name) ?? {});
}
