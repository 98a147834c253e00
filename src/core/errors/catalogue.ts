import type { ErrorEntry, ErrorKind } from "./error-entry.ts";
import { extensionErrors } from "./extension-errors.ts";

export type { ErrorKind } from "./error-entry.ts";

/** Every error code, once. Codes are permanent; `docs/errors.md` is generated from this table. */
export const errorCatalogue = {
  "config/not-found": {
    kind: "usage",
    title: "No config file",
    help: "Run inside a folder with an mcp-eval.config file, or name one with --config.",
  },
  "config/foreign-owner": {
    kind: "usage",
    title: "A file of another user, found by looking upwards",
    help: "If you trust it, name the config on the command line; otherwise work in a folder of your own.",
  },
  "config/unreadable": {
    kind: "usage",
    title: "The config file cannot be read or evaluated",
    help: "Check that the file exists, is readable and, for TS and JS, runs without throwing.",
  },
  "config/syntax": {
    kind: "usage",
    title: "The file is not well-formed JSON or YAML",
    help: "Mend the syntax at the place shown.",
  },
  "config/unknown-key": {
    kind: "usage",
    title: "A key that the format does not have",
    help: "Remove or rename the key; formats are strict so that a typo never disables a check.",
  },
  "config/invalid-value": {
    kind: "usage",
    title: "A value of the wrong type or out of range",
    help: "Give the value that the message asks for.",
  },
  "config/public-secret": {
    kind: "usage",
    title: "A secret in a place that other users can read",
    help: "Command lines can be read by every user of the machine: give it in a variable or in a file.",
  },
  "config/missing-key": {
    kind: "usage",
    title: "A required key is missing",
    help: "Add the key.",
  },
  "config/unset-variable": {
    kind: "usage",
    title: "A ${VAR} that is not set",
    help: "Set the variable, pass --env NAME=VALUE, or write ${NAME:-default}.",
  },
  "config/nothing-to-run": {
    kind: "usage",
    title: "Nothing to run",
    help: "Declare at least one workflow or one tool test.",
  },
  "config/checks-nothing": {
    kind: "usage",
    title: "A workflow that expects nothing",
    help: "Give it expectedState, expectTools or a judge: what checks nothing cannot pass.",
  },
  "config/duplicate-name": {
    kind: "usage",
    title: "Two things of one name",
    help: "Rename one of them.",
  },
  "config/unknown-reference": {
    kind: "usage",
    title: "A name that refers to nothing",
    help: "Use one of the names that the message lists.",
  },
  "usage/invalid-option": {
    kind: "usage",
    title: "A wrong command line or option",
    help: "See mcpvals COMMAND --help.",
  },
  "usage/no-match": {
    kind: "usage",
    title: "The selection matches no task",
    help: "mcpvals list shows what there is.",
  },
  "store/unwritable": {
    kind: "usage",
    title: "The output cannot be written",
    help: "Choose a folder that can be written, with --output DIR.",
  },
  "store/not-found": {
    kind: "usage",
    title: "No such run",
    help: "Look into .mcpvals/runs, or name a run folder.",
  },
  "store/corrupt": {
    kind: "environment",
    title: "A run's file is missing, or does not match its checksum",
    help: "It was changed or damaged after it was written; trust no totals from that run.",
  },
  "server/spawn-failed": {
    kind: "environment",
    title: "The server could not be started",
    help: "Check command, args and cwd; run the same command in a terminal.",
  },
  "server/exited": {
    kind: "environment",
    title: "The server's process ended by itself",
    help: "Its stderr, shown with the error, usually says why.",
  },
  "server/handshake-timeout": {
    kind: "environment",
    title: "The server did not complete initialize and tools/list in time",
    help: "Raise startupTimeout if it is only slow; stdout must carry nothing but MCP messages.",
  },
  "server/protocol-error": {
    kind: "environment",
    title: "The server answered with something that is not MCP",
    help: "stdout must carry one JSON-RPC message a line and nothing else; logs belong on stderr.",
  },
  "server/http-status": {
    kind: "environment",
    title: "The server's URL answered with an HTTP error",
    help: "Check the url, the headers and the credentials.",
  },
  "server/unauthorized": {
    kind: "environment",
    title: "No access token for the server could be had, or it was refused",
    help: "Check `auth` of the server: the client, its secret, the file with the tokens.",
  },
  "server/unreachable": {
    kind: "environment",
    title: "No connection to the server's URL",
    help: "Check that the server runs and that the url is right.",
  },
  "server/message-too-large": {
    kind: "environment",
    title: "The server sent a message over the size limit",
    help: "Answer with less, or raise maxMessageBytes for that server.",
  },
  "server/required": {
    kind: "usage",
    title: "A server that is required does not start, so nothing was run",
    help: "Mend the server, or leave out required: true.",
  },
  "server/missing": {
    kind: "environment",
    title: "A step needs a server that did not start",
    help: "Mend the server; with required: false a trial goes on without it, but not the steps that need it.",
  },
  "server/call-timeout": {
    kind: "timeout",
    title: "A tool call was not answered in time",
    help: "Raise timeout if the tool is only slow.",
  },
  "model/no-key": {
    kind: "environment",
    title: "No API key for the model's provider",
    help: "Set the provider's key, or choose another agent with --agent.",
  },
  "model/unknown-provider": {
    kind: "usage",
    title: "A model id whose provider is not known",
    help: "Use PROVIDER/MODEL, or give baseURL for an OpenAI-compatible server.",
  },
  "model/unreachable": {
    kind: "environment",
    title: "The model did not answer",
    help: "Check the network, the base URL and the provider's status.",
  },
  "model/rejected": {
    kind: "environment",
    title: "The model's provider refused the request",
    help: "The provider's message says why: key, model name, quota or request.",
  },
  "model/invalid-response": {
    kind: "environment",
    title: "The model's provider answered with something unusable",
    help: "Check that the base URL speaks the provider's wire format.",
  },
  "judge/no-verdict": {
    kind: "environment",
    title: "The judge gave no usable verdict",
    help: "Try again, or choose another judge model; no verdict is never a pass.",
  },
  "agent/no-plan": {
    kind: "usage",
    title: "The scripted agent has no plan for a workflow",
    help: "Add a plan under that workflow's name, or choose another agent.",
  },
  "agent/program-not-found": {
    kind: "environment",
    title: "An agent's program cannot be found",
    help: "Install it, or give its full path as command.",
  },
  "agent/spawn-failed": {
    kind: "environment",
    title: "An agent's program cannot be started",
    help: "Check command and cwd, and run the same command in a terminal.",
  },
  "agent/startup-timeout": {
    kind: "environment",
    title: "An agent's program did not get ready in time",
    help: "It may wait for a login, or may not speak the Agent Client Protocol; run it in a terminal.",
  },
  "agent/exited": {
    kind: "environment",
    title: "An agent's program ended before its turn did",
    help: "Its stderr, shown with the error, usually says why.",
  },
  "agent/protocol": {
    kind: "environment",
    title: "An agent's program said something that is not its protocol",
    help: "Check that command and arguments start it in the right mode, and its version.",
  },
  "agent/failed": {
    kind: "environment",
    title: "An agent's program said that it could not act",
    help: "Its message says why: usually the key, the model or the network.",
  },
  "agent/no-connection": {
    kind: "environment",
    title: "An agent's program was given servers and connected to none of them",
    help: "Its own config may have a server of the same name, which it took instead: rename one of the two. Give a task that is to be done without servers none.",
  },
  "agent/skills": {
    kind: "environment",
    title: "Skills that cannot be copied into the workspace",
    help: "Check that the folders of config.skills can be read, and that nothing is in their place in the workspace.",
  },
  "agent/auth": {
    kind: "environment",
    title: "An agent's program is not logged in",
    help: "Log in with the program itself, or pass the variable with its key.",
  },
  "agent/model-not-offered": {
    kind: "usage",
    title: "An agent's program does not offer the model",
    help: "Name a model that it offers, or leave model out.",
  },
  "agent/client-config": {
    kind: "environment",
    title: "A config file that leads an agent program to the servers cannot be written or put back",
    help: "Mend or move away the file that is named, or let only one run at a time work in that folder.",
  },
  "task/template": {
    kind: "environment",
    title: "A template that cannot be replaced",
    help: "Check the name after the root, and that an earlier step gave such an output.",
  },
  "task/untrusted-value": {
    kind: "usage",
    title: "A value from outside stands where it could act as more than a text",
    help: "Pass it in the env of the step, as an argument or on stdin, or ask for it as it is with {… | raw}.",
  },
  "task/unfit-value": {
    kind: "environment",
    title: "A value from outside that does not fit where it stands",
    help: "The step has failed: what an agent, a server or a program gave is empty, or no name, path or number as is needed there.",
  },
  "task/json-path": {
    kind: "usage",
    title: "Not a JSON path",
    help: "Write the path as RFC 9535 has it, such as $.items[0].name.",
  },
  "task/pattern": {
    kind: "usage",
    title: "Not a regular expression",
    help: "Patterns have RE2 syntax: no look-around, no back-references.",
  },
  "task/outside": {
    kind: "usage",
    title: "A path that leaves the task's folder",
    help: "Keep a task's files beside it, or allow the path with --allow-outside.",
  },
  "task/extension": {
    kind: "usage",
    title: "A step uses an extension wrongly",
    help: "Name an operation that the extension has, in a phase that it allows, with the arguments that it takes.",
  },
  "sandbox/unavailable": {
    kind: "usage",
    title: "The sandbox that was asked for cannot be had here",
    help: "Install what the message names, or choose another sandbox; mcpvals never runs a program without the one it is to have.",
  },
  ...extensionErrors,
  "task/missing-requirement": {
    kind: "environment",
    title: "Something that the task requires is missing",
    help: "Provide what the message lists; without --strict the task is skipped.",
  },
  "task/no-judge": {
    kind: "environment",
    title: "A step that asks a judge, and no judge is configured",
    help: "Configure one (llmJudge in an Eval, judge in a config, or --judge MODEL).",
  },
  "task/no-solution": {
    kind: "usage",
    title: "The oracle has nothing to play",
    help: "Give the task a spec.solution, or choose another agent.",
  },
  "task/setup-failed": {
    kind: "environment",
    title: "A setup step did not do what it should",
    help: "The step's checks, shown with the error, say what was expected and what was there.",
  },
  "task/workspace": {
    kind: "environment",
    title: "The trial's workspace could not be made, compared or removed",
    help: "Check the fixtures and the folder for temporary files.",
  },
  "step/cannot-run": {
    kind: "environment",
    title: "A step could not act",
    help: "The message says what it lacked: a program, a connection, a readable file.",
  },
  "step/timeout": {
    kind: "timeout",
    title: "A step reached its time limit",
    help: "Raise the step's timeout if the work is only slow.",
  },
  "step/broken-script": {
    kind: "environment",
    title: "A script that does not keep its protocol",
    help: "With protocol: json a script exits with 0 and writes one JSON object with `passed` on stdout.",
  },
  "trial/timeout": {
    kind: "timeout",
    title: "The trial reached its time limit",
    help: "Raise limits.trial or --timeout if the work is only slow.",
  },
  "trial/record-full": {
    kind: "environment",
    title: "A trial recorded more than it may",
    help: "Have the server, agent or step that is named send less; docs/security.md has the limits.",
  },
  "run/interrupted": {
    kind: "interrupted",
    title: "The run was interrupted",
    help: "Finished trials are kept in the run folder.",
  },
  "run/bailed": {
    kind: "interrupted",
    title: "Not run, because an earlier trial did not pass",
    help: "Leave out --bail to run everything.",
  },
  "internal/unexpected": {
    kind: "bug",
    title: "A bug in mcpvals",
    help: "Please report it with the detail shown.",
  },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorCatalogue;

/** The kind of each code. */
export const errorKinds: Readonly<Record<ErrorCode, ErrorKind>> = Object.fromEntries(
  Object.entries(errorCatalogue).map(([code, entry]) => [code, entry.kind]),
) as Record<ErrorCode, ErrorKind>;
