/**
 * Runs the algorithm once the signal, which is not aborted yet, is aborted. Returns the function that removes
 * it again.
 */
export declare function addAbortAlgorithm(signal: AbortSignal, algorithm: () => void): () => void;
/** Runs the algorithms of signals that are aborted and whose listeners are still being called. */
export declare function runDueAbortAlgorithms(): void;
