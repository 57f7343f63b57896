// Tests of the suite that Chromium's own locks fail, with the fault. Everything else must pass there.
// A fault that is a race shows in some runs only (`sometimes`); every other one must show each time, or it
// leaves this list.

export const nativeFaults = {
  'WL-012 SP-011 lone surrogates survive and stay distinct': {
    fault: 'names become UTF-8 on their way, each lone surrogate U+FFFD',
  },
  'WL-089 aborting a queued exclusive request wakes the shared ones behind it': {
    fault: 'the queue is not processed after an abort',
  },
  'WL-083 every victim rejects before the callback of the stealer runs': {
    fault: 'victims and stealer hear over different pipes',
    sometimes: true,
  },
  'WL-083 of two steals in one turn the first callback starts and then its promise rejects': {
    fault: 'victims and stealer hear over different pipes',
    sometimes: true,
  },
};
