'use strict';

// Twice a second while the page is seen: the lists are there to be looked at.
const REFRESH_MS = 500;

const $ = (id) => document.getElementById(id);
let refreshing = false;
const me = `tab ${Math.random().toString(36).slice(2, 6)}`;
// A server with authentication wants a key. What follows the # is sent to no server, and does not stay in the
// address.
const key = new URLSearchParams(location.hash.slice(1)).get('key') || undefined;
if (key) history.replaceState(null, '', location.pathname + location.search);
const client = lockhouse.connect(location.origin + location.search, { clientId: me, key, onstate: showState });

$('me').value = me;
showState(client.state);
$('form').addEventListener('submit', (event) => {
  event.preventDefault();
  ask($('name').value, event.submitter?.dataset.how ?? 'exclusive');
});
setInterval(() => document.visibilityState === 'visible' && refresh(), REFRESH_MS);
refresh();

function showState(state) {
  $('connection').textContent = state === 'lost' ? 'connection lost, trying again' : state;
  $('connection').dataset.state = state;
  // What the lists show is only what was last heard.
  document.body.classList.toggle('stale', state !== 'open');
}

/** One request, as a card that tells its story. */
async function ask(name, how) {
  const aborter = new AbortController();
  const options = {
    exclusive: { signal: aborter.signal },
    shared: { mode: 'shared', signal: aborter.signal },
    'if available': { ifAvailable: true },
    steal: { steal: true },
  }[how];
  document.querySelectorAll('#mine .failed').forEach((failed) => failed.remove());
  const card = entry({ name, mode: how, clientId: me });
  const note = card.querySelector('.note');
  const button = card.appendChild(document.createElement('button'));
  const show = (text) => { note.textContent = text; };
  let failure;
  show('waits');
  button.textContent = 'abort';
  button.hidden = !options.signal;
  button.onclick = () => aborter.abort();
  $('mine').prepend(card);
  refresh();
  try {
    await client.locks.request(name, options, (lock) => {
      if (lock === null) return show('not available');
      show(`held, fencing token ${lock.fencingToken}`);
      refresh();
      button.hidden = false;
      button.textContent = 'release';
      return new Promise((release) => { button.onclick = () => { show('released'); release(); }; });
    });
  } catch (error) {
    if (aborter.signal.aborted) show('aborted');
    else failure = error;
  }
  if (failure) {
    // It stays to be read: until it is dismissed, or the next request.
    show(`${failure.name}: ${failure.message}`);
    card.classList.add('failed');
    button.hidden = false;
    button.textContent = 'dismiss';
    button.onclick = () => card.remove();
  } else {
    button.remove();
    card.classList.add('ended');
    setTimeout(() => card.remove(), 5000);
  }
  refresh();
}

async function refresh() {
  if (refreshing || client.state !== 'open') return;
  refreshing = true;
  try {
    const { held, pending } = await client.locks.query();
    for (const [id, entries] of [['held', held], ['pending', withPlaces(pending)]]) {
      $(id).replaceChildren(...entries.map(entry));
      $(`${id}-count`).textContent = entries.length;
    }
  } catch {
    // The state of the connection tells.
  } finally {
    refreshing = false;
  }
}

/** The entries, each with its place, from 1, in the queue of its name; they come in queue order. */
function withPlaces(pending) {
  const queues = new Map();
  return pending.map((waiting) => {
    const place = (queues.get(waiting.name) ?? 0) + 1;
    queues.set(waiting.name, place);
    return { ...waiting, place };
  });
}

function entry({ name, mode, clientId, place }) {
  const item = document.createElement('li');
  item.classList.toggle('mine', clientId === me);
  const note = place ? `${clientId}, place ${place}` : clientId;
  for (const [part, text] of [['name', JSON.stringify(name)], ['mode', mode], ['note', note]]) {
    const span = document.createElement('span');
    span.className = part;
    span.textContent = text;
    item.append(span);
  }
  return item;
}
