// Limits at the three doors: a server's or program's message, a user's file, a run folder. What only one format or protocol needs stays in its
// file.

/** Largest file of a user that is read into a task or for a server, in bytes; larger ones are given by mistake. */
export const maxFileBytes: number = 4 * 1024 * 1024;

/** Largest YAML file, in bytes: parsing it takes ten times as long as JSON. */
export const maxYamlBytes: number = 512 * 1024;

/** Levels of arrays and objects that such a file may have, values of any kind in it, and aliases, each of which YAML looks up in all anchors. */
export const maxFileDepth = 200;
export const maxFileValues = 200_000;
export const maxFileAliases = 1000;

/** Longest that what one step, one table of variables or one file is written with may become, in characters. */
export const maxExpansionLength: number = 16 * 1024 * 1024;

/** Most of a file, a response, or a stream of a program's output that a step checks, in bytes. */
export const maxCheckedBytes = 10_000_000;

/** Longest message of a server, an agent or an extension, in bytes; a config may raise it for a server. */
export const maxMessageBytes: number = 10 * 1024 * 1024;

/**
 * Levels of arrays and objects that a message may have. JSON has no limit, but every program that handles a message, the SDK
 * and agents too, uses a stack that has one.
 */
export const maxMessageDepth = 400;

/** Messages that are not answers and that one connection may carry in a trial, so that a flood cannot fill the memory. */
export const maxUnasked = 100_000;

/**
 * Most that is kept in memory, in bytes, of messages of a server that no client takes, of all that a server sends in one part of a
 * check, and of all answers of a model in a conversation (of each, where they are streamed), each of which may have so many values.
 */
export const maxKeptBytes: number = 32 * 1024 * 1024;
export const maxAnswerValues = 100_000;

/** Most bytes that an agent's unanswered requests may have together, and that are read of an answer of its model on the way. */
export const maxOpenBytes: number = 64 * 1024 * 1024;

/** Parts of a JSON Schema of a tool: compiling one with three times as many takes 400 MB and ten seconds. */
export const maxSchemaParts = 20_000;

/** Most memory that one value, or all that a trial records, may take, in bytes. */
export const maxMemory: number = 128 * 1024 * 1024;

/** Levels of one record of a run: the deepest message plus the event around it; of an answer of a model or an OAuth server too. */
export const maxRecordDepth = 500;

/** Largest document of a run folder, in bytes; a longer text exceeds the maximum string length of V8. */
export const maxDocumentBytes: number = 500 * 1024 * 1024;

/** Maximum size of a line of a journal and of an attachment, in bytes; more than one trial may record. */
export const maxPartBytes: number = 256 * 1024 * 1024;

/** Files that go to other machines with a run: as many and as large, together in bytes, as a project of evals may have, and not a whole disk. */
export const maxBundleFiles = 20_000;
export const maxBundleBytes: number = 256 * 1024 * 1024;
