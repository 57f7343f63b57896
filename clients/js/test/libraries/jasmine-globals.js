// Jasmine's functions as globals, as specifications take them for granted when they load.

import { installGlobals, jasmine } from './node_modules/jasmine-core/lib/jasmine-core/jasmine.js';

installGlobals();

/** Runs what was described; gives the name of each specification and why it failed. */
export async function run() {
  const env = jasmine.getEnv();
  const results = [];
  env.configure({ random: false });
  env.addReporter({
    specDone: ({ fullName, status, failedExpectations }) =>
      results.push({ name: fullName, status, failures: failedExpectations.map(({ message }) => message) }),
  });
  await env.execute();
  return results;
}
