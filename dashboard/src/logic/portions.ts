/** The list in portions of at most `size`, in order; each weighs at most `most`, or is one alone. */
export function portions<T>(
  list: readonly T[],
  size: number,
  weigh: (it: T) => number = () => 0,
  most = Number.POSITIVE_INFINITY,
): T[][] {
  const found: T[][] = [];
  let weight = 0;
  for (const it of list) {
    const portion = found.at(-1);
    const more = weigh(it);
    if (portion && portion.length < size && weight + more <= most) {
      portion.push(it);
      weight += more;
    } else {
      found.push([it]);
      weight = more;
    }
  }
  return found;
}
