import { change, linkTo, place, toPrevious } from '../data/place';
import { changed } from '../logic/url';

/** Which page of a list this is, and the ways to the others; the address has the page. */
export function Pager({
  shown,
  next,
  noun,
  isLoading,
}: {
  /** Nothing where that is not known. */
  shown: number | undefined;
  next: string | null | undefined;
  noun: string;
  isLoading?: boolean;
}) {
  const { params, page } = place.value;
  const number = Number(params.page ?? 1);
  const first = linkTo(page, changed(params, { cursor: undefined, page: undefined }));
  return (
    <nav class="pager" aria-label="Pages">
      <span role="status">
        {isLoading
          ? 'Loading…'
          : shown === undefined
            ? ''
            : `${shown} ${noun}${shown === 1 ? '' : 's'} on page ${number}`}
      </span>
      {params.cursor ? (
        <>
          <a class="button quiet" href={first}>
            First
          </a>
          <button type="button" class="quiet" onClick={() => toPrevious(first)}>
            Previous
          </button>
        </>
      ) : null}
      {next ? (
        <button type="button" onClick={() => change({ cursor: next, page: String(number + 1) })}>
          Next page
        </button>
      ) : null}
    </nav>
  );
}
