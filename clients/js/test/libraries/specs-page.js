// The tests that WA-SQLite has of its locks, in a page.

import './jasmine-globals.js';
import '@journeyapps/wa-sqlite/test/WebLocksMixin.test.js';
import { run } from './jasmine-globals.js';

export { run };
