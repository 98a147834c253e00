import type { ErrorEntry } from "./error-entry.ts";

/** The error codes of extensions; part of the catalogue. */
export const extensionErrors = {
  "extension/invalid-package": {
    kind: "usage",
    title: "What names an extension's package is not understood",
    help: "Write github.com/ORG/REPO@VERSION, npm:NAME@VERSION, mcpvals:NAME or a path.",
  },
  "extension/not-found": {
    kind: "usage",
    title: "There is no such extension, version, or file for this platform",
    help: "Check the package and its version, and what the release has.",
  },
  "extension/source-not-allowed": {
    kind: "usage",
    title: "An extension from a source that is not allowed",
    help: "Add its source to allowedSources, or use another extension.",
  },
  "extension/integrity": {
    kind: "usage",
    title: "An extension's files are not what they should be",
    help: "Somebody changed them, or the lock. Find out who; then remove them and fetch them again.",
  },
  "extension/unsafe-archive": {
    kind: "usage",
    title: "An archive that would write outside of its folder, or is no archive",
    help: "Do not use it, and tell whoever made it.",
  },
  "extension/invalid-lock": {
    kind: "usage",
    title: "The lock file cannot be understood",
    help: "Restore mcp-eval.lock, or remove it and let mcpvals extensions add write it anew.",
  },
  "extension/not-locked": {
    kind: "usage",
    title: "An extension that is not in the lock",
    help: "Run mcpvals extensions add PACKAGE, or leave out --frozen.",
  },
  "extension/invalid-manifest": {
    kind: "usage",
    title: "An extension.yaml that is not valid",
    help: "Mend what the message names; docs/extensions.md has the format.",
  },
  "extension/missing-command": {
    kind: "usage",
    title: "An extension needs a program that is not here",
    help: "Install the program that the message names.",
  },
  "extension/unwritable": {
    kind: "usage",
    title: "The lock, or the folder of fetched extensions, cannot be written",
    help: "Choose a folder that can be written (cacheDir, MCPVALS_EXTENSIONS_CACHE), or run with --frozen and a lock.",
  },
  "extension/unreachable": {
    kind: "environment",
    title: "An extension could not be fetched",
    help: "Check the network and the address of the source.",
  },
  "extension/start-failed": {
    kind: "environment",
    title: "An extension did not start",
    help: "See what it wrote on stderr, and try it alone: mcpvals extensions test PROGRAM.",
  },
  "extension/version": {
    kind: "environment",
    title: "An extension speaks another version of the protocol",
    help: "Use a version of it that speaks 0.0.1.",
  },
  "extension/protocol": {
    kind: "environment",
    title: "An extension broke the protocol",
    help: "Mend what the message names; mcpvals extensions test PROGRAM tries the rest of the protocol.",
  },
  "extension/rpc-error": {
    kind: "environment",
    title: "An extension answered with an error instead of a result",
    help: "The message is the extension's own; what it was given are config and env of the extension in the eval.",
  },
  "extension/crashed": {
    kind: "environment",
    title: "An extension ended before it had answered",
    help: "See what it wrote on stderr, and try it alone: mcpvals extensions test PROGRAM.",
  },
  "extension/answer-too-large": {
    kind: "environment",
    title: "An extension gave too long an answer",
    help: "Answer with less; files can go into the workspace.",
  },
  "extension/limit": {
    kind: "environment",
    title: "An extension broke a limit of its sandbox",
    help: "Raise the limit that the message names, or let it use less.",
  },
  "extension/invalid-arguments": {
    kind: "environment",
    title: "Arguments that an operation does not take, or an operation that there is not",
    help: "Check what the templates in the step's arguments become.",
  },
  "extension/timeout": {
    kind: "timeout",
    title: "An operation of an extension took too long",
    help: "Raise the step's timeout, or that of extensions in the eval.",
  },
} as const satisfies Record<string, ErrorEntry>;
