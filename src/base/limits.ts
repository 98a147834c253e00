// Limits at the three doors: a server's or program's message, a user's file, a run folder. What only one format needs stays in its file.

/** Largest file of a user that is read into a task or for a server, in bytes; larger ones are given by mistake. */
export const maxFileBytes: number = 4 * 1024 * 1024;

/** Longest message of a server, an agent or an extension, in bytes; a config may raise it for a server. */
export const maxMessageBytes: number = 10 * 1024 * 1024;

/**
 * Levels of arrays and objects that a message may have. JSON has no limit, but every program that handles a message, the SDK
 * and agents too, uses a stack that has one.
 */
export const maxMessageDepth = 400;

/** Most memory that one value, or all that a trial records, may take, in bytes. */
export const maxMemory: number = 128 * 1024 * 1024;

/** Levels of one record of a run: the deepest message plus the event around it. */
export const maxRecordDepth = 500;

/** Largest document of a run folder, in bytes; a longer text exceeds the maximum string length of V8. */
export const maxDocumentBytes: number = 500 * 1024 * 1024;

/** Maximum size of a line of a journal and of an attachment, in bytes; more than one trial may record. */
export const maxPartBytes: number = 256 * 1024 * 1024;
