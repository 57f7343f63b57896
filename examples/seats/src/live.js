// Keeps a page as the server would show it now. Everything works without this script; only one has to reload
// then.

const news = document.getElementById('news');
const link = document.getElementById('link');

/** What a reader of the page cannot see is said. */
const say = (text) => {
  news.textContent = text;
};

// --- Whatever has another version than before is replaced; what has not is left alone, with its focus and
// what is typed in it.

let fetching = false;
let again = false;

async function refresh() {
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  try {
    do {
      again = false;
      const answer = await fetch(document.getElementById('main').dataset.page);
      if (answer.ok) take(new DOMParser().parseFromString(await answer.text(), 'text/html'));
    } while (again);
  } catch {
    // The events say when the server can be reached again.
  }
  fetching = false;
}

function take(fresh) {
  const [before, after] = [document.getElementById('main'), fresh.getElementById('main')];
  if (before.dataset.version !== after.dataset.version) {
    before.replaceWith(document.adoptNode(after));
    document.title = fresh.title;
    after.querySelector('h1')?.focus();
    say(after.querySelector('h1')?.textContent ?? '');
  } else {
    replaceParts(fresh);
  }
  startCountdowns();
  rove();
}

function replaceParts(fresh) {
  const changed = [];
  for (const after of fresh.querySelectorAll('main [data-version]')) {
    const before = document.getElementById(after.id);
    if (!before || before.dataset.version === after.dataset.version) continue;
    const hadFocus = before === document.activeElement;
    before.replaceWith(document.adoptNode(after));
    if (hadFocus) after.focus();
    if (after.matches('.seat')) changed.push(after.getAttribute('aria-label'));
  }
  if (changed.length) say(changed.length > 3 ? `${changed.length} seats have changed` : changed.join('; '));
}

// --- Countdowns.

const ends = new WeakMap();

function startCountdowns() {
  for (const span of document.querySelectorAll('.countdown'))
    if (!ends.has(span)) ends.set(span, Date.now() + Number(span.dataset.leftMs));
}

function tick() {
  for (const span of document.querySelectorAll('.countdown')) {
    const seconds = Math.max(0, Math.ceil((ends.get(span) - Date.now()) / 1000));
    span.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
    if (seconds === 15 && !span.classList.contains('soon') && span.closest('#time')) say('15 seconds left');
    span.classList.toggle('soon', seconds <= 15);
  }
}

// --- The arrow keys go from seat to seat; Tab enters and leaves the hall at the seat where one was last.

const seatAt = (row, column) => document.getElementById('hall')?.rows[row]?.cells[column + 1]?.firstElementChild;
let place = [0, 0];

function rove() {
  for (const seat of document.querySelectorAll('#hall .seat')) seat.tabIndex = -1;
  const seat = seatAt(...place);
  if (seat) seat.tabIndex = 0;
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

document.addEventListener('keydown', (event) => {
  const step = STEPS[event.key];
  if (!step || !event.target.matches?.('#hall .seat')) return;
  event.preventDefault();
  seatAt(place[0] + step[0], place[1] + step[1])?.focus();
});

document.addEventListener('focusin', ({ target }) => {
  const cell = target.closest('#hall td');
  if (!cell) return;
  place = [cell.parentElement.rowIndex, cell.cellIndex - 1];
  rove();
});

// --- Begin.

startCountdowns();
tick();
rove();
setInterval(tick, 250);
const events = new EventSource('/events');
events.addEventListener('change', refresh);
events.addEventListener('open', () => {
  link.textContent = '';
});
events.addEventListener('error', () => {
  link.textContent = 'not connected: what you see may be out of date';
});
// A page that comes out of the browser's memory is as old as when it was left.
addEventListener('pageshow', (event) => event.persisted && refresh());
