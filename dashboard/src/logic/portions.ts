/** The list in portions of at most `size`, in order. */
export function portions<T>(list: readonly T[], size: number): T[][] {
  const found: T[][] = [];
  for (let at = 0; at < list.length; at += size) found.push(list.slice(at, at + size));
  return found;
}
