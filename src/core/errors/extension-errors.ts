import type { ErrorEntry } from "./error-entry.ts";

/** The error codes of extensions; part of the catalogue. */
export const extensionErrors = {
  "extension/invalid-package": {
    kind: "usage",
    title: "Invalid package name of an extension",
    help: "Use github.com/ORG/REPO@VERSION, npm:NAME@VERSION, mcpvals:NAME or a path.",
  },
  "extension/not-found": {
    kind: "usage",
    title: "Extension not found: no such package, version, or file for this platform",
    help: "Check the package and version, and the files of the release.",
  },
  "extension/source-not-allowed": {
    kind: "usage",
    title: "The extension's source is not allowed",
    help: "Add the source to allowedSources, or use another extension.",
  },
  "extension/integrity": {
    kind: "usage",
    title: "Checksum mismatch in an extension's files",
    help: "The files or the lock were changed. Find out who changed them, then remove the files and download them again.",
  },
  "extension/unsafe-archive": {
    kind: "usage",
    title: "Invalid archive, or one that writes outside its folder",
    help: "Do not use it, and tell its publisher.",
  },
  "extension/invalid-lock": {
    kind: "usage",
    title: "Invalid lock file",
    help: "Restore mcp-eval.lock, or remove it and run mcpvals extensions add.",
  },
  "extension/not-locked": {
    kind: "usage",
    title: "An extension is not in the lock file",
    help: "Run mcpvals extensions add PACKAGE, or remove --frozen.",
  },
  "extension/invalid-manifest": {
    kind: "usage",
    title: "Invalid extension.yaml",
    help: "Fix what the message names; docs/extensions.md describes the format.",
  },
  "extension/missing-command": {
    kind: "usage",
    title: "An extension needs a program that is not installed",
    help: "Install the program that the message names.",
  },
  "extension/unwritable": {
    kind: "usage",
    title: "The lock file or the extension cache cannot be written",
    help: "Choose a writable folder (cacheDir, MCPVALS_EXTENSIONS_CACHE), or run with --frozen and a lock.",
  },
  "extension/unreachable": {
    kind: "environment",
    title: "An extension could not be downloaded",
    help: "Check the network and the address of the source.",
  },
  "extension/start-failed": {
    kind: "environment",
    title: "An extension did not start",
    help: "Read its stderr, and test it alone: mcpvals extensions test PROGRAM.",
  },
  "extension/version": {
    kind: "environment",
    title: "An extension uses another protocol version",
    help: "Use a version of the extension that supports protocol 0.0.1.",
  },
  "extension/protocol": {
    kind: "environment",
    title: "An extension violated the protocol",
    help: "Fix what the message names; mcpvals extensions test PROGRAM tests the whole protocol.",
  },
  "extension/rpc-error": {
    kind: "environment",
    title: "An extension answered with an error",
    help: "The message is from the extension. Check its config and env in the eval.",
  },
  "extension/crashed": {
    kind: "environment",
    title: "An extension exited before it answered",
    help: "Read its stderr, and test it alone: mcpvals extensions test PROGRAM.",
  },
  "extension/answer-too-large": {
    kind: "environment",
    title: "An extension's answer is too large",
    help: "Return less, or write files to the workspace.",
  },
  "extension/limit": {
    kind: "environment",
    title: "An extension exceeded a limit of its sandbox",
    help: "Raise the limit that the message names, or reduce what the extension uses.",
  },
  "extension/invalid-arguments": {
    kind: "environment",
    title: "Invalid arguments, or unknown operation",
    help: "Check the values of the templates in the step's arguments.",
  },
  "extension/timeout": {
    kind: "timeout",
    title: "An operation of an extension timed out",
    help: "Raise the step's timeout, or the timeout of extensions in the eval.",
  },
} as const satisfies Record<string, ErrorEntry>;
