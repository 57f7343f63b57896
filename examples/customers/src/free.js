// Who has the customer, as it changes; and the button that comes alive when it is free.
const { watch } = document.currentScript.dataset;
const note = document.querySelector('#free');
const again = document.querySelector('#again');
const href = again.getAttribute('href');

function show(text, isFree) {
  note.textContent = text;
  again.classList.toggle('primary', isFree);
  // A link without an address cannot be followed.
  if (isFree) again.setAttribute('href', href);
  else again.removeAttribute('href');
  again.toggleAttribute('aria-disabled', !isFree);
}

// A browser has six connections for all pages of a site: a hidden one gives its own back.
let events;

function follow() {
  events?.close();
  events = undefined;
  if (document.hidden) return;
  events = new EventSource(watch);
  events.addEventListener('taken', ({ data }) => show(data, false));
  events.addEventListener('free', ({ data }) => show(data, true));
}

document.addEventListener('visibilitychange', follow);
follow();
