/** Who has to act on an error. `usage` exits with 2; `environment` and `timeout` make a trial `error` or `timeout`. */
export type ErrorKind = "usage" | "environment" | "timeout" | "interrupted" | "bug";

export interface ErrorEntry {
  readonly kind: ErrorKind;
  readonly title: string;
  readonly help: string;
}

/** An entry of errors of a kind: the first sentence is the title, the others say what to do. */
function entryOf(kind: ErrorKind): (text: `${string}. ${string}`) => ErrorEntry {
  return (text) => {
    const end = text.indexOf(". ");
    return { kind, title: text.slice(0, end), help: text.slice(end + 2) };
  };
}

const usage = entryOf("usage");
const environment = entryOf("environment");
const timeout = entryOf("timeout");
const interrupted = entryOf("interrupted");
const bug = entryOf("bug");

/** Every error code, once. Codes are permanent; `docs/errors.md` is generated from this table. */
export const errorCatalogue = {
  "config/not-found": usage(
    "Config file not found. Run mcpvals in a folder with an mcp-eval.config file, or name one with --config.",
  ),
  "config/foreign-owner": usage(
    "A file in a parent folder belongs to another user. If you trust it, name the config on the command line; otherwise work in a folder of your own.",
  ),
  "config/unreadable": usage(
    "The config file cannot be read or evaluated. Check that the file exists, is readable and, for TypeScript and JavaScript, runs without throwing.",
  ),
  "config/syntax": usage("Invalid JSON or YAML. Fix the syntax error at the place shown."),
  "config/unknown-key": usage(
    "Unknown key. Remove or rename the key. Unknown keys are errors, so that a typo never disables a check.",
  ),
  "config/invalid-value": usage(
    "A value has the wrong type or is out of range. Use a value that the message allows.",
  ),
  "config/public-secret": usage(
    "A secret in a place that other users can read. Every user of the machine can read command lines: pass the secret in a variable or a file.",
  ),
  "config/missing-key": usage("Missing key. Add the key."),
  "config/unset-variable": usage(
    "A ${VAR} is not set. Set the variable, pass --env NAME=VALUE, or write ${NAME:-default}.",
  ),
  "config/nothing-to-run": usage("Nothing to run. Add at least one workflow, tool test or task."),
  "config/checks-nothing": usage(
    "A check that cannot fail, or a workflow without expectations. Add an expectation that can fail: a run without evidence never passes.",
  ),
  "config/duplicate-name": usage("Duplicate name. Rename one of the two."),
  "config/unknown-reference": usage("Unknown name. Use one of the names that the message lists."),
  "config/unknown-price": usage(
    "No price for a model, and a budget of money. Add the price to the file of prices, or leave out the budget.",
  ),
  "config/no-user-model": usage(
    "A task has a simulated user with a goal, and no model plays it. Set userModel in a config or an Eval, or pass --user-model MODEL.",
  ),
  "config/no-judge": usage(
    "A grader asks a judge, and none is configured. Set judge in a config or llmJudge in an Eval, give the grader a model, or pass --judge MODEL.",
  ),
  "usage/invalid-option": usage("Invalid command line. See mcpvals COMMAND --help."),
  "usage/no-match": usage("The selection matches no task. Run npx mcpvals list to see all tasks."),
  "transcript/unknown-format": usage(
    "Not a transcript that mcpvals knows. Name the file of a session of Claude Code, Codex or Gemini CLI, or what opencode export prints, a trajectory of ATIF, a result file of mcpchecker or waza, or a folder with some.",
  ),
  "transcript/unreadable": usage("A transcript cannot be read. Check that the file exists and is readable."),
  "transcript/unclear-tools": environment(
    "A transcript does not say of which servers tools are. Name the servers that the program had with --server of mcpvals import.",
  ),
  "grader/not-imported": environment(
    "A grader of an imported trial needs a model, a program or a file, which import does not use. Grade the run with mcpvals grade --config FILE.",
  ),
  "transcript/damaged": environment(
    "A part of a transcript was not read, so nothing can be said of the whole session. Repair the line, or take the file from a backup.",
  ),
  "transcript/contradicts-itself": environment(
    "A trajectory of mcpvals says another verdict than its record gives: it was changed, or another version graded it. Export the run again, or grade it with mcpvals grade --config FILE.",
  ),
  "store/unwritable": usage(
    "The output, or a snapshot, cannot be written. Choose a writable folder with --output DIR, or another file with --snapshot FILE.",
  ),
  "store/not-found": usage("Run not found. Look in .mcpvals/runs, or name a run folder."),
  "store/in-use": usage(
    "The run still goes on. Another process executes it: wait until it has ended, or end it.",
  ),
  "store/not-resumable": usage(
    "The run cannot be resumed. What it runs has changed, or it does not say how it was started: run it again.",
  ),
  "store/not-mergeable": usage(
    "Runs are not the parts of one run. Merge what run --shard 1/N to N/N have run, each once, of the same files, options and versions.",
  ),
  "store/unreachable": environment(
    "The database of runs cannot be reached or used. Check its address and that it runs; nothing that it has is lost: go on with mcpvals attach.",
  ),
  "store/no-access": usage(
    "The database of runs refuses this user. Check user, password and database, and what docs/scaling.md lists of rights.",
  ),
  "store/other-schema": usage(
    "The tables in the database are of another version. Use the same version of mcpvals everywhere, and start the newest first as the owner of the database.",
  ),
  "bundle/secret": usage(
    "A file that would go to other machines has the value of a secret. Write ${NAME} in its place, and set the variable where the workers run.",
  ),
  "bundle/changed": usage(
    "A file changed while a run was given to workers. Start the run again when nothing writes to the working folder.",
  ),
  "bundle/too-large": usage(
    "The working folder has too much for other machines. Let git ignore what the eval does not need, or start the run in a smaller folder.",
  ),
  "worker/refused": usage(
    "A worker cannot run the trials of a run. It is another version or system, or something that the run needs is not there: the message says what.",
  ),
  "worker/lost": environment(
    "Three workers ended while they ran the trial. It is not tried again: look at what it does to the machine.",
  ),
  "worker/lease-lost": interrupted(
    "Another worker has the trial now. This one was not heard of for too long, so what it did is dropped.",
  ),
  "store/nothing-recorded": usage(
    "The run has no trial that was recorded. Its trials never began: run them with npx mcpvals run.",
  ),
  "store/corrupt": environment(
    "A file of the run is missing or does not match its checksum. It was changed or damaged after it was written: do not rely on totals of this run.",
  ),
  "store/deleted": environment(
    "The run was deleted from its database while it was followed. What had ended before is in the folder of runs.",
  ),
  "export/no-package": environment(
    "The package that sends spans is not installed. Install it beside mcpvals, as the message says.",
  ),
  "export/refused": environment(
    "The collector did not take the spans. Check its address, and that it takes OTLP over HTTP.",
  ),
  "server/spawn-failed": environment(
    "The server could not be started. Check command, args and cwd; run the same command in a terminal.",
  ),
  "server/exited": environment(
    "The server process exited by itself. Its stderr, shown with the error, usually gives the reason.",
  ),
  "server/handshake-timeout": environment(
    "The server did not complete initialize and tools/list in time. If it is only slow, raise startupTimeout. stdout must contain nothing but MCP messages.",
  ),
  "server/protocol-error": environment(
    "The server's answer is not valid MCP. stdout must contain one JSON-RPC message per line and nothing else; write logs to stderr.",
  ),
  "server/http-status": environment(
    "The server's URL returned an HTTP error. Check the url, the headers and the credentials.",
  ),
  "server/unauthorized": environment(
    "No access token, or the server rejected it. Check the server's `auth`: client id, client secret, token file.",
  ),
  "server/unreachable": environment(
    "No connection to the server's URL. Check that the server is running and that the url is right.",
  ),
  "server/message-too-large": environment(
    "The server sent a message over the size limit. Return less, or raise maxMessageBytes of the server.",
  ),
  "server/required": usage(
    "A required server does not start, so nothing was run. Fix the server, or remove required: true.",
  ),
  "check/conformance-suite": environment(
    "The conformance suite gave no report. What it printed is shown with the error; try another version of @modelcontextprotocol/conformance.",
  ),
  "server/missing": environment(
    "A step needs a server that did not start. Fix the server. With required: false a trial runs without it, but not the steps that need it.",
  ),
  "server/call-timeout": timeout(
    "A tool call was not answered in time. If the tool is only slow, raise timeout.",
  ),
  "agent/unknown-use": environment(
    "The agent program did not report what a limit of the trial needs: its tokens, or a cost or a model with a price. Count its tokens with `modelProxy`, add its model to the file of prices, or leave out the limit.",
  ),
  "model/no-key": environment(
    "No API key for the model's provider, or no region, project or address. Set the provider's variables, or choose another agent with --agent.",
  ),
  "model/no-package": environment(
    "The package for the model's provider is not installed. Install it beside mcpvals, as the message says.",
  ),
  "model/unknown-provider": usage(
    "Unknown provider in a model id. Use PROVIDER/MODEL, or set baseURL for an OpenAI-compatible server.",
  ),
  "model/unreachable": environment(
    "The model did not answer. Check the network, the base URL and the provider's status.",
  ),
  "model/rejected": environment(
    "The model's provider rejected the request. The provider's message gives the reason: API key, model name, quota or request.",
  ),
  "model/context-overflow": environment(
    "The request is longer than the model's context window. Give the judge less evidence, or choose a model with a larger window. Of an agent's own request it fails the turn.",
  ),
  "model/invalid-response": environment(
    "The model's provider sent an invalid response. Check that the base URL uses the provider's API format.",
  ),
  "user/no-reply": environment(
    "The simulated user gave no usable reply: its model refused, was cut off, or said nothing, or no written reply fits at the beginning. Try again, choose another model with userModel or --user-model, or give it a reply without `when`.",
  ),
  "judge/no-verdict": environment(
    "The judge gave no valid verdict. Try again, or choose another judge model. A trial without a verdict never passes.",
  ),
  "grader/cannot-run": environment(
    "The program of a grader could not run. The message says what is missing, such as the program or its interpreter.",
  ),
  "grader/timeout": timeout(
    "The program of a grader reached its time limit. If it is only slow, raise the grader's timeout.",
  ),
  "grader/broken": environment(
    "The program of a grader gave no usable answer. It has to answer with `passed`, or with a `score` from 0 to 1.",
  ),
  "agent/no-plan": usage(
    "The scripted agent has no plan for a workflow. Add a plan with the workflow's name, or choose another agent.",
  ),
  "agent/program-not-found": environment(
    "Agent program not found. Install it, or set command to its full path.",
  ),
  "agent/spawn-failed": environment(
    "An agent program cannot be started. Check command and cwd, and run the same command in a terminal.",
  ),
  "agent/startup-timeout": environment(
    "An agent program was not ready in time. It may wait for a login or not support the Agent Client Protocol; run it in a terminal.",
  ),
  "agent/exited": environment(
    "An agent program exited before the end of its turn. Its stderr, shown with the error, usually gives the reason.",
  ),
  "agent/protocol": environment(
    "An agent program violated its protocol. Check its version, and that command and args start it in the right mode.",
  ),
  "agent/failed": environment(
    "An agent program reported that it could not act. Its message gives the reason: usually the API key, the model or the network.",
  ),
  "agent/no-connection": environment(
    "An agent program connected to none of its servers, or ended before any of them had listed its tools. Its own config may contain a server of the same name, which it used instead: rename one of them. If a task needs no servers, give it none. If the program does not wait, run fewer trials at once (`--concurrency`). It reaches servers at 127.0.0.1, so that the machine needs its loopback interface.",
  ),
  "agent/home": environment(
    "A trial of an agent program cannot have a home of its own: its login cannot be read, or a folder above its workspace has instructions that it would read. The message names the file: move it away.",
  ),
  "agent/skills": environment(
    "Skills cannot be copied into the workspace. Check that the folders of config.skills are readable, and that the workspace has no files in their place.",
  ),
  "agent/auth": environment(
    "An agent program is not logged in. Log in with the program itself, or pass on the variable with its API key.",
  ),
  "agent/model-not-offered": usage(
    "An agent program does not offer the model. Use a model that it offers, or remove model.",
  ),
  "agent/option-not-offered": usage(
    "An agent program does not offer a setting, or this value of it. Use one that it offers, or remove the setting.",
  ),
  "agent/client-config": environment(
    "The config file of an agent program cannot be written or restored. Fix or move the file, or let only one run at a time use that folder.",
  ),
  "task/template": environment(
    "A template cannot be replaced. Check the name after the root, and that an earlier step has this output.",
  ),
  "task/untrusted-value": usage(
    "An untrusted value where it would be executed or evaluated. Pass it in the step's env, as an argument or on stdin, or insert it unchanged with {… | raw}.",
  ),
  "task/unfit-value": environment(
    "An untrusted value does not fit its place. The step has failed: the value is empty, or not a valid name, path or number for this place.",
  ),
  "task/json-path": usage("Invalid JSON path. Use RFC 9535 syntax, such as $.items[0].name."),
  "task/pattern": usage("Invalid regular expression. Use RE2 syntax: no look-around, no back-references."),
  "task/outside": usage(
    "A path outside the task's folder. Keep a task's files beside it, or allow the path with --allow-outside.",
  ),
  "task/extension": usage(
    "Invalid use of an extension. Use an operation that the extension has, in a phase that it allows, with valid arguments.",
  ),
  "sandbox/unavailable": usage(
    "The sandbox is not available. Install what the message names, or choose another sandbox. mcpvals never runs a program without its sandbox.",
  ),
  "sandbox/no-session": environment(
    "A server opens no session in the sandbox of `check --security`, which has no network and another home folder, so that nothing can be said about it. Install it first and name its own program, or check it without --security.",
  ),
  "sandbox/record-lost": environment(
    "What a server touches in `check --security` could not be recorded to its end, so that nothing can be said about it. If the message says that something cut the record off, do not trust the server; if one step did too much, check it without --security.",
  ),
  "extension/invalid-package": usage(
    "Invalid package name of an extension. Use github.com/ORG/REPO@VERSION, npm:NAME@VERSION, mcpvals:NAME or a path.",
  ),
  "extension/not-found": usage(
    "Extension not found: no such package, version, or file for this platform. Check the package and version, and the files of the release.",
  ),
  "extension/source-not-allowed": usage(
    "The extension's source is not allowed. Add the source to allowedSources, or use another extension.",
  ),
  "extension/integrity": usage(
    "Checksum mismatch in an extension's files. The files or the lock were changed. Find out who changed them, then remove the files and download them again.",
  ),
  "extension/unsafe-archive": usage(
    "Invalid archive, or one that writes outside its folder. Do not use it, and tell its publisher.",
  ),
  "extension/invalid-lock": usage(
    "Invalid lock file. Restore mcp-eval.lock, or remove it and run npx mcpvals extensions add.",
  ),
  "extension/not-locked": usage(
    "An extension is not in the lock file. Run npx mcpvals extensions add PACKAGE, or remove --frozen.",
  ),
  "extension/invalid-manifest": usage(
    "Invalid extension.yaml. Fix what the message names; docs/extensions.md describes the format.",
  ),
  "extension/missing-command": usage(
    "An extension needs a program that is not installed. Install the program that the message names.",
  ),
  "extension/unwritable": usage(
    "The lock file or the extension cache cannot be written. Choose a writable folder (cacheDir, MCPVALS_EXTENSIONS_CACHE), or run with --frozen and a lock.",
  ),
  "extension/unreachable": environment(
    "An extension could not be downloaded. Check the network and the address of the source.",
  ),
  "extension/start-failed": environment(
    "An extension did not start. Read its stderr, and test it alone: npx mcpvals extensions test PROGRAM.",
  ),
  "extension/version": environment(
    "An extension uses another protocol version. Use a version of the extension that supports protocol 0.0.1.",
  ),
  "extension/protocol": environment(
    "An extension violated the protocol. Fix what the message names; npx mcpvals extensions test PROGRAM tests the whole protocol.",
  ),
  "extension/rpc-error": environment(
    "An extension answered with an error. The message is from the extension. Check its config and env in the eval.",
  ),
  "extension/crashed": environment(
    "An extension exited before it answered. Read its stderr, and test it alone: npx mcpvals extensions test PROGRAM.",
  ),
  "extension/answer-too-large": environment(
    "An extension's answer is too large. Return less, or write files to the workspace.",
  ),
  "extension/limit": environment(
    "An extension exceeded a limit of its sandbox. Raise the limit that the message names, or reduce what the extension uses.",
  ),
  "extension/invalid-arguments": environment(
    "Invalid arguments, or unknown operation. Check the values of the templates in the step's arguments.",
  ),
  "extension/timeout": timeout(
    "An operation of an extension timed out. Raise the step's timeout, or the timeout of extensions in the eval.",
  ),
  "task/missing-requirement": environment(
    "A requirement of the task is not met. Provide what the message lists. Without --strict the task is skipped.",
  ),
  "check/nothing-to-do": environment(
    "A part of a check has nothing to do, such as calls of a server without tools, and is skipped. The message says why; the other parts decide.",
  ),
  "task/no-judge": environment(
    "A step needs a judge, but none is configured. Configure llmJudge in an Eval, judge in a config, or pass --judge MODEL.",
  ),
  "task/no-solution": usage(
    "The task has no solution for the oracle to play. Add spec.solution to the task, or choose another agent.",
  ),
  "task/setup-failed": environment(
    "A setup step failed. The step's checks, shown with the error, give the expected and the actual values.",
  ),
  "task/workspace": environment(
    "The trial's workspace could not be created, compared or removed. Check the fixtures and the temporary folder.",
  ),
  "step/cannot-run": environment(
    "A step could not run. The message says what is missing: a program, a connection, a readable file.",
  ),
  "step/timeout": timeout("A step reached its time limit. If it is only slow, raise the step's timeout."),
  "step/broken-script": environment(
    "A script violated its protocol. With protocol: json, a script must exit with 0 and write one JSON object with `passed` to stdout.",
  ),
  "trial/timeout": timeout(
    "The trial reached its time limit. If it is only slow, raise limits.trial or --timeout.",
  ),
  "trial/record-full": environment(
    "The record of the trial is full. Make the named server, agent or step send less; docs/security.md lists the limits.",
  ),
  "replay/unreadable": usage(
    "Recordings cannot be read. Name the folder that a run with --record has written; the message says what is wrong in it.",
  ),
  "replay/not-recorded": environment(
    "Something that was not recorded was asked of a replayed server or model. Record the task again with --record, or change back what differs; the message names the nearest request of the recording.",
  ),
  "run/interrupted": interrupted("The run was interrupted. Finished trials are in the run folder."),
  "run/bailed": interrupted(
    "Not run, because an earlier trial did not pass. Remove --bail to run everything.",
  ),
  "run/budget": interrupted(
    "Not run, because a budget of the run is used up, or cannot be kept since a use is unknown. Go on with a larger one: mcpvals resume RUN --budget-tokens 100000; or without one: mcpvals resume RUN --without-budget.",
  ),
  "run/hook-failed": environment(
    "A command around the whole run failed, as one of hooks.before_run. What it printed is shown with the error; without error_on_fail it gives a warning.",
  ),
  "internal/unexpected": bug("A bug in mcpvals. Please report it with the details shown."),
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorCatalogue;

/** The kind of each code. */
export const errorKinds: Readonly<Record<ErrorCode, ErrorKind>> = Object.fromEntries(
  Object.entries(errorCatalogue).map(([code, entry]) => [code, entry.kind]),
) as Record<ErrorCode, ErrorKind>;
