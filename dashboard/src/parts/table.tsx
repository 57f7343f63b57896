import {
  defaultRangeExtractor,
  elementScroll,
  observeElementOffset,
  observeElementRect,
  type Range,
  type VirtualItem,
  Virtualizer,
} from '@tanstack/virtual-core';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import { usePhone } from './phone';

/** A column of a table. */
export interface Column<T> {
  id: string;
  title: string;
  /** The CSS width of its track. */
  width: string;
  cell: (row: T) => ComponentChildren;
  /** The word by which the server sorts, if it does. */
  sort?: string;
  /** Where it goes on a phone: the first line, its end, the second line (without it), or nowhere. */
  phone?: 'main' | 'side' | 'none';
  isNumber?: boolean;
}

export interface TableProps<T> {
  /** What the table lists, for those who cannot see it. */
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  keyOf: (row: T) => string;
  /** A row in a few words, for those who cannot see it; wanted where rows can be chosen. */
  nameOf?: (row: T) => string;
  onOpen?: ((row: T) => void) | undefined;
  sort?: string;
  onSort?: (sort: string) => void;
  /** The keys of the rows that are chosen, if rows can be. */
  chosen?: ReadonlySet<string> | undefined;
  onChoose?: ((row: T | 'all') => void) | undefined;
  canChoose?: (row: T) => boolean;
  isStale?: boolean;
  /** Narrower than this it is scrolled from side to side; a CSS length. */
  least?: string;
  /** In pixels, except on a phone. */
  rowHeight?: number;
  /** The same on a phone. */
  phoneHeight?: number;
}

const ROW = 44;
const PHONE_ROW = 68;

/** A table of any length, of which only what is seen is rendered; the arrow keys lead through it. */
export function Table<T>(props: TableProps<T>) {
  const {
    label,
    rows,
    columns,
    keyOf,
    nameOf = keyOf,
    onOpen,
    chosen,
    onChoose,
    canChoose = () => true,
    isStale,
    least = '52rem',
    rowHeight = ROW,
    phoneHeight = PHONE_ROW,
  } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const height = usePhone() ? phoneHeight : rowHeight;
  const keys = useMemo(() => numbered(rows.map(keyOf)), [rows]);
  const { present, setActive, focusLater } = useActive(scroller, keys);
  const virtual = useVirtual(scroller, rows.length, height, present);
  const focusRow = (index: number) => {
    setActive(keys[index]);
    virtual.scrollToIndex(index);
    focusLater();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!(event.target instanceof HTMLElement) || !event.target.matches('[role=row]')) return;
    // The target itself says which row it is, as rows may move under the focus.
    const at = Number(event.target.dataset.index ?? Number.NaN);
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? height) / height) - 1);
    const move = moveOf(event.key, page, rows.length);
    const row = rows[at];
    if (move !== undefined) focusRow(Math.min(rows.length - 1, Math.max(0, at + move)));
    else if (event.key === 'Enter' && row && onOpen) onOpen(row);
    else if (event.key === ' ' && row && onChoose && canChoose(row)) onChoose(row);
    else return;
    event.preventDefault();
  };
  const tracks = [...(chosen ? ['2.25rem'] : []), ...columns.map((column) => column.width)].join(' ');
  return (
    <div
      class={isStale ? 'table stale' : 'table'}
      role="grid"
      aria-label={label}
      style={{ '--least': least }}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length + (chosen ? 1 : 0)}
      onKeyDown={onKeyDown}
    >
      <Head {...props} tracks={tracks} />
      <div ref={scroller} class="rows" role="rowgroup">
        <div role="presentation" class="rows-space" style={{ height: `${virtual.getTotalSize()}px` }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            if (row === undefined) return null;
            const key = keys[item.index] ?? '';
            return (
              <Row
                key={key}
                row={row}
                item={item}
                height={height}
                tracks={tracks}
                columns={columns}
                isChosen={chosen?.has(keyOf(row))}
                isPresent={item.index === present}
                name={nameOf(row)}
                onFocus={() => setActive(key)}
                onOpen={onOpen}
                onChoose={canChoose(row) ? onChoose : undefined}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}

/** The keys, those that have come before with a number. */
function numbered(keys: readonly string[]): string[] {
  const seen = new Map<string, number>();
  return keys.map((key) => {
    const before = seen.get(key) ?? 0;
    seen.set(key, before + 1);
    return before === 0 ? key : `${key} ${before}`;
  });
}

/** By how many rows a key moves. */
function moveOf(key: string, page: number, all: number): number | undefined {
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -all, End: all };
  return moves[key as keyof typeof moves];
}

/**
 * The row that the keys are for: the same one wherever it moves, and once it has gone the one at its place.
 * Focus that a change of the rows takes away is given back.
 */
function useActive(
  scroller: { current: HTMLDivElement | null },
  keys: readonly string[],
): { present: number; setActive: (key: string | undefined) => void; focusLater: () => void } {
  const [active, setActive] = useState<string | undefined>();
  const places = useMemo(() => new Map(keys.map((key, index) => [key, index])), [keys]);
  const place = useRef(0);
  const isWanted = useRef(false);
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  const known = active === undefined ? undefined : places.get(active);
  const present = Math.max(0, known ?? Math.min(place.current, keys.length - 1));
  place.current = present;
  const inside = (element: Element | null) => (element && scroller.current?.contains(element) ? element : undefined);
  const focusOn = (options: FocusOptions) =>
    scroller.current?.querySelector<HTMLElement>(`[data-index="${present}"]`)?.focus(options);
  const before = inside(document.activeElement);
  useLayoutEffect(() => {
    if (before && !inside(document.activeElement)) {
      if (inside(before) && before instanceof HTMLElement) before.focus({ preventScroll: true });
      else focusOn({ preventScroll: true });
    }
    if (isWanted.current) focusOn({});
    isWanted.current = false;
  });
  const focusLater = () => {
    isWanted.current = true;
    redraw(undefined);
  };
  return { present, setActive, focusLater };
}

interface RowProps<T> {
  row: T;
  name: string;
  item: VirtualItem;
  height: number;
  tracks: string;
  columns: readonly Column<T>[];
  /** Whether it is chosen, where rows can be. */
  isChosen: boolean | undefined;
  isPresent: boolean;
  onFocus: () => void;
  onOpen: ((row: T) => void) | undefined;
  onChoose: ((row: T) => void) | undefined;
}

function Row<T>(props: RowProps<T>) {
  const { row, name, item, height, tracks, columns, isChosen, isPresent, onFocus, onOpen, onChoose } = props;
  return (
    <div
      role="row"
      class={isChosen ? 'row chosen' : 'row'}
      data-index={item.index}
      aria-rowindex={item.index + 2}
      aria-selected={isChosen}
      tabIndex={isPresent ? 0 : -1}
      style={{ transform: `translateY(${item.start}px)`, height: `${height}px`, gridTemplateColumns: tracks }}
      onFocusIn={onFocus}
      onDblClick={() => onOpen?.(row)}
    >
      {isChosen === undefined ? null : (
        <div role="gridcell" class="choice">
          {onChoose ? (
            <input
              type="checkbox"
              aria-label={`Choose ${name}`}
              tabIndex={-1}
              checked={isChosen}
              onChange={() => onChoose(row)}
            />
          ) : null}
        </div>
      )}
      {columns.map((column) => (
        <div key={column.id} role="gridcell" class={cellClass(column)}>
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
}

function cellClass<T>({ id, phone, isNumber }: Column<T>): string {
  return `cell cell-${id}${phone ? ` phone-${phone}` : ''}${isNumber ? ' number' : ''}`;
}

function Head<T>({
  columns,
  rows,
  keyOf,
  sort,
  onSort,
  chosen,
  onChoose,
  canChoose = () => true,
  tracks,
}: TableProps<T> & { tracks: string }) {
  const choosable = rows.filter(canChoose);
  const isAll = choosable.length > 0 && choosable.every((row) => chosen?.has(keyOf(row)));
  return (
    <div role="rowgroup" class="head">
      <div role="row" aria-rowindex={1} class="row" style={{ gridTemplateColumns: tracks }}>
        {chosen ? (
          <div role="columnheader" class="choice">
            <input
              type="checkbox"
              aria-label="Choose all on this page"
              checked={isAll}
              onChange={() => onChoose?.('all')}
            />
          </div>
        ) : null}
        {columns.map((column) => {
          const by = column.sort;
          const isSorted = by !== undefined && by === sort;
          return (
            <div
              key={column.id}
              role="columnheader"
              class={cellClass(column)}
              aria-sort={isSorted ? 'ascending' : undefined}
            >
              {by !== undefined && onSort ? (
                <button type="button" class="sort" onClick={() => onSort(by)}>
                  {column.title}
                  {isSorted ? <span aria-hidden="true">↑</span> : null}
                </button>
              ) : (
                column.title
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function useVirtual(
  scroller: { current: HTMLDivElement | null },
  count: number,
  height: number,
  present: number,
): Virtualizer<HTMLDivElement, Element> {
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  const options = {
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 8,
    // The row that may have the focus is there, wherever the rows are scrolled to.
    rangeExtractor: (range: Range) => [...new Set([...defaultRangeExtractor(range), present])].sort((a, b) => a - b),
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw(undefined),
  };
  const [virtual] = useState(() => new Virtualizer<HTMLDivElement, Element>(options));
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  useLayoutEffect(() => virtual.measure(), [height]);
  return virtual;
}
