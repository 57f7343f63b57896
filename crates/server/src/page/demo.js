'use strict';

// Twice a second while the page is seen: the lists are there to be looked at.
const REFRESH_MS = 500;

const $ = (id) => document.getElementById(id);
let refreshing = false;
const me = `tab ${Math.random().toString(36).slice(2, 6)}`;
const client = lockhouse.connect(location.origin + location.search, { clientId: me, onstate: showState });

$('me').value = me;
showState(client.state);
$('form').addEventListener('submit', (event) => {
  event.preventDefault();
  ask($('name').value, event.submitter?.dataset.how ?? 'exclusive');
});
setInterval(() => document.visibilityState === 'visible' && refresh(), REFRESH_MS);
refresh();

function showState(state) {
  $('connection').textContent = state;
  $('connection').dataset.state = state;
}

/** One request, as a card that tells its story. */
async function ask(name, how) {
  const aborter = new AbortController();
  const options = {
    exclusive: { signal: aborter.signal },
    shared: { mode: 'shared', signal: aborter.signal },
    available: { ifAvailable: true },
    steal: { steal: true },
  }[how];
  const card = entry({ name, mode: how, clientId: me });
  const note = card.querySelector('.note');
  const button = card.appendChild(document.createElement('button'));
  const tell = (text) => { note.textContent = text; };
  tell('waits');
  button.textContent = 'abort';
  button.hidden = !options.signal;
  button.onclick = () => aborter.abort();
  $('mine').prepend(card);
  refresh();
  try {
    await client.locks.request(name, options, (lock) => {
      if (lock === null) return tell('not available');
      tell('held');
      refresh();
      button.hidden = false;
      button.textContent = 'release';
      return new Promise((release) => { button.onclick = () => { tell('released'); release(); }; });
    });
  } catch (error) {
    tell(error.name === 'AbortError' && aborter.signal.aborted ? 'aborted' : `${error.name}: ${error.message}`);
  }
  button.remove();
  card.classList.add('ended');
  setTimeout(() => card.remove(), 5000);
  refresh();
}

async function refresh() {
  if (refreshing || client.state !== 'open') return;
  refreshing = true;
  try {
    const { held, pending } = await client.locks.query();
    for (const [id, entries] of [['held', held], ['pending', pending]]) {
      $(id).replaceChildren(...entries.map(entry));
      $(`${id}-count`).textContent = entries.length;
    }
  } catch {
    // The state of the connection tells.
  } finally {
    refreshing = false;
  }
}

function entry({ name, mode, clientId }) {
  const item = document.createElement('li');
  item.classList.toggle('mine', clientId === me);
  for (const [part, text] of [['name', JSON.stringify(name)], ['mode', mode], ['note', clientId]]) {
    const span = document.createElement('span');
    span.className = part;
    span.textContent = text;
    item.append(span);
  }
  return item;
}
