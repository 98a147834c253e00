/** Who has to act on an error. `usage` exits with 2; `environment` and `timeout` make a trial `error` or `timeout`. */
export type ErrorKind = "usage" | "environment" | "timeout" | "interrupted" | "bug";

export interface ErrorEntry {
  readonly kind: ErrorKind;
  readonly title: string;
  readonly help: string;
}

/** The error codes of extensions; part of the catalogue. */
const extensionErrors = {
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

/** Every error code, once. Codes are permanent; `docs/errors.md` is generated from this table. */
export const errorCatalogue = {
  "config/not-found": {
    kind: "usage",
    title: "Config file not found",
    help: "Run mcpvals in a folder with an mcp-eval.config file, or name one with --config.",
  },
  "config/foreign-owner": {
    kind: "usage",
    title: "A file in a parent folder belongs to another user",
    help: "If you trust it, name the config on the command line; otherwise work in a folder of your own.",
  },
  "config/unreadable": {
    kind: "usage",
    title: "The config file cannot be read or evaluated",
    help: "Check that the file exists, is readable and, for TypeScript and JavaScript, runs without throwing.",
  },
  "config/syntax": {
    kind: "usage",
    title: "Invalid JSON or YAML",
    help: "Fix the syntax error at the place shown.",
  },
  "config/unknown-key": {
    kind: "usage",
    title: "Unknown key",
    help: "Remove or rename the key. Unknown keys are errors, so that a typo never disables a check.",
  },
  "config/invalid-value": {
    kind: "usage",
    title: "A value has the wrong type or is out of range",
    help: "Use a value that the message allows.",
  },
  "config/public-secret": {
    kind: "usage",
    title: "A secret in a place that other users can read",
    help: "Every user of the machine can read command lines: pass the secret in a variable or a file.",
  },
  "config/missing-key": {
    kind: "usage",
    title: "Missing key",
    help: "Add the key.",
  },
  "config/unset-variable": {
    kind: "usage",
    title: "A ${VAR} is not set",
    help: "Set the variable, pass --env NAME=VALUE, or write ${NAME:-default}.",
  },
  "config/nothing-to-run": {
    kind: "usage",
    title: "Nothing to run",
    help: "Add at least one workflow, tool test or task.",
  },
  "config/checks-nothing": {
    kind: "usage",
    title: "A workflow without expectations",
    help: "Add expectedState, expectTools or a judge: a workflow that checks nothing cannot pass.",
  },
  "config/duplicate-name": {
    kind: "usage",
    title: "Duplicate name",
    help: "Rename one of the two.",
  },
  "config/unknown-reference": {
    kind: "usage",
    title: "Unknown name",
    help: "Use one of the names that the message lists.",
  },
  "usage/invalid-option": {
    kind: "usage",
    title: "Invalid command line",
    help: "See mcpvals COMMAND --help.",
  },
  "usage/no-match": {
    kind: "usage",
    title: "The selection matches no task",
    help: "Run mcpvals list to see all tasks.",
  },
  "store/unwritable": {
    kind: "usage",
    title: "The output cannot be written",
    help: "Choose a writable folder with --output DIR.",
  },
  "store/not-found": {
    kind: "usage",
    title: "Run not found",
    help: "Look in .mcpvals/runs, or name a run folder.",
  },
  "store/corrupt": {
    kind: "environment",
    title: "A file of the run is missing or does not match its checksum",
    help: "It was changed or damaged after it was written: do not rely on totals of this run.",
  },
  "server/spawn-failed": {
    kind: "environment",
    title: "The server could not be started",
    help: "Check command, args and cwd; run the same command in a terminal.",
  },
  "server/exited": {
    kind: "environment",
    title: "The server process exited by itself",
    help: "Its stderr, shown with the error, usually gives the reason.",
  },
  "server/handshake-timeout": {
    kind: "environment",
    title: "The server did not complete initialize and tools/list in time",
    help: "If it is only slow, raise startupTimeout. stdout must contain nothing but MCP messages.",
  },
  "server/protocol-error": {
    kind: "environment",
    title: "The server's answer is not valid MCP",
    help: "stdout must contain one JSON-RPC message per line and nothing else; write logs to stderr.",
  },
  "server/http-status": {
    kind: "environment",
    title: "The server's URL returned an HTTP error",
    help: "Check the url, the headers and the credentials.",
  },
  "server/unauthorized": {
    kind: "environment",
    title: "No access token, or the server rejected it",
    help: "Check the server's `auth`: client id, client secret, token file.",
  },
  "server/unreachable": {
    kind: "environment",
    title: "No connection to the server's URL",
    help: "Check that the server is running and that the url is right.",
  },
  "server/message-too-large": {
    kind: "environment",
    title: "The server sent a message over the size limit",
    help: "Return less, or raise maxMessageBytes of the server.",
  },
  "server/required": {
    kind: "usage",
    title: "A required server does not start, so nothing was run",
    help: "Fix the server, or remove required: true.",
  },
  "server/missing": {
    kind: "environment",
    title: "A step needs a server that did not start",
    help: "Fix the server. With required: false a trial runs without it, but not the steps that need it.",
  },
  "server/call-timeout": {
    kind: "timeout",
    title: "A tool call was not answered in time",
    help: "If the tool is only slow, raise timeout.",
  },
  "model/no-key": {
    kind: "environment",
    title: "No API key for the model's provider",
    help: "Set the provider's API key, or choose another agent with --agent.",
  },
  "model/unknown-provider": {
    kind: "usage",
    title: "Unknown provider in a model id",
    help: "Use PROVIDER/MODEL, or set baseURL for an OpenAI-compatible server.",
  },
  "model/unreachable": {
    kind: "environment",
    title: "The model did not answer",
    help: "Check the network, the base URL and the provider's status.",
  },
  "model/rejected": {
    kind: "environment",
    title: "The model's provider rejected the request",
    help: "The provider's message gives the reason: API key, model name, quota or request.",
  },
  "model/invalid-response": {
    kind: "environment",
    title: "The model's provider sent an invalid response",
    help: "Check that the base URL uses the provider's API format.",
  },
  "judge/no-verdict": {
    kind: "environment",
    title: "The judge gave no valid verdict",
    help: "Try again, or choose another judge model. A trial without a verdict never passes.",
  },
  "agent/no-plan": {
    kind: "usage",
    title: "The scripted agent has no plan for a workflow",
    help: "Add a plan with the workflow's name, or choose another agent.",
  },
  "agent/program-not-found": {
    kind: "environment",
    title: "Agent program not found",
    help: "Install it, or set command to its full path.",
  },
  "agent/spawn-failed": {
    kind: "environment",
    title: "An agent program cannot be started",
    help: "Check command and cwd, and run the same command in a terminal.",
  },
  "agent/startup-timeout": {
    kind: "environment",
    title: "An agent program was not ready in time",
    help: "It may wait for a login or not support the Agent Client Protocol; run it in a terminal.",
  },
  "agent/exited": {
    kind: "environment",
    title: "An agent program exited before the end of its turn",
    help: "Its stderr, shown with the error, usually gives the reason.",
  },
  "agent/protocol": {
    kind: "environment",
    title: "An agent program violated its protocol",
    help: "Check its version, and that command and args start it in the right mode.",
  },
  "agent/failed": {
    kind: "environment",
    title: "An agent program reported that it could not act",
    help: "Its message gives the reason: usually the API key, the model or the network.",
  },
  "agent/no-connection": {
    kind: "environment",
    title: "An agent program connected to none of its servers",
    help: "Its own config may contain a server of the same name, which it used instead: rename one of them. If a task needs no servers, give it none.",
  },
  "agent/skills": {
    kind: "environment",
    title: "Skills cannot be copied into the workspace",
    help: "Check that the folders of config.skills are readable, and that the workspace has no files in their place.",
  },
  "agent/auth": {
    kind: "environment",
    title: "An agent program is not logged in",
    help: "Log in with the program itself, or pass on the variable with its API key.",
  },
  "agent/model-not-offered": {
    kind: "usage",
    title: "An agent program does not offer the model",
    help: "Use a model that it offers, or remove model.",
  },
  "agent/client-config": {
    kind: "environment",
    title: "The config file of an agent program cannot be written or restored",
    help: "Fix or move the file, or let only one run at a time use that folder.",
  },
  "task/template": {
    kind: "environment",
    title: "A template cannot be replaced",
    help: "Check the name after the root, and that an earlier step has this output.",
  },
  "task/untrusted-value": {
    kind: "usage",
    title: "An untrusted value where it would be executed or evaluated",
    help: "Pass it in the step's env, as an argument or on stdin, or insert it unchanged with {… | raw}.",
  },
  "task/unfit-value": {
    kind: "environment",
    title: "An untrusted value does not fit its place",
    help: "The step has failed: the value is empty, or not a valid name, path or number for this place.",
  },
  "task/json-path": {
    kind: "usage",
    title: "Invalid JSON path",
    help: "Use RFC 9535 syntax, such as $.items[0].name.",
  },
  "task/pattern": {
    kind: "usage",
    title: "Invalid regular expression",
    help: "Use RE2 syntax: no look-around, no back-references.",
  },
  "task/outside": {
    kind: "usage",
    title: "A path outside the task's folder",
    help: "Keep a task's files beside it, or allow the path with --allow-outside.",
  },
  "task/extension": {
    kind: "usage",
    title: "Invalid use of an extension",
    help: "Use an operation that the extension has, in a phase that it allows, with valid arguments.",
  },
  "sandbox/unavailable": {
    kind: "usage",
    title: "The sandbox is not available",
    help: "Install what the message names, or choose another sandbox. mcpvals never runs a program without its sandbox.",
  },
  ...extensionErrors,
  "task/missing-requirement": {
    kind: "environment",
    title: "A requirement of the task is not met",
    help: "Provide what the message lists. Without --strict the task is skipped.",
  },
  "task/no-judge": {
    kind: "environment",
    title: "A step needs a judge, but none is configured",
    help: "Configure llmJudge in an Eval, judge in a config, or pass --judge MODEL.",
  },
  "task/no-solution": {
    kind: "usage",
    title: "The task has no solution for the oracle to play",
    help: "Add spec.solution to the task, or choose another agent.",
  },
  "task/setup-failed": {
    kind: "environment",
    title: "A setup step failed",
    help: "The step's checks, shown with the error, give the expected and the actual values.",
  },
  "task/workspace": {
    kind: "environment",
    title: "The trial's workspace could not be created, compared or removed",
    help: "Check the fixtures and the temporary folder.",
  },
  "step/cannot-run": {
    kind: "environment",
    title: "A step could not run",
    help: "The message says what is missing: a program, a connection, a readable file.",
  },
  "step/timeout": {
    kind: "timeout",
    title: "A step reached its time limit",
    help: "If it is only slow, raise the step's timeout.",
  },
  "step/broken-script": {
    kind: "environment",
    title: "A script violated its protocol",
    help: "With protocol: json, a script must exit with 0 and write one JSON object with `passed` to stdout.",
  },
  "trial/timeout": {
    kind: "timeout",
    title: "The trial reached its time limit",
    help: "If it is only slow, raise limits.trial or --timeout.",
  },
  "trial/record-full": {
    kind: "environment",
    title: "The record of the trial is full",
    help: "Make the named server, agent or step send less; docs/security.md lists the limits.",
  },
  "run/interrupted": {
    kind: "interrupted",
    title: "The run was interrupted",
    help: "Finished trials are in the run folder.",
  },
  "run/bailed": {
    kind: "interrupted",
    title: "Not run, because an earlier trial did not pass",
    help: "Remove --bail to run everything.",
  },
  "internal/unexpected": {
    kind: "bug",
    title: "A bug in mcpvals",
    help: "Please report it with the details shown.",
  },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorCatalogue;

/** The kind of each code. */
export const errorKinds: Readonly<Record<ErrorCode, ErrorKind>> = Object.fromEntries(
  Object.entries(errorCatalogue).map(([code, entry]) => [code, entry.kind]),
) as Record<ErrorCode, ErrorKind>;
