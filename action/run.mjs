// Runs mcpvals for action.yml: that of the project, or else the version that this action belongs to, installed outside the project.
// Writes the outputs `verdict` and `folder` of the step, and ends with the exit code of mcpvals.
import { spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";

const { MCPVALS_ARGS: args = "run", RUNNER_TEMP: temporary = ".", GITHUB_OUTPUT: outputs = "" } = process.env;
const own = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

const folder = mkdtempSync(join(temporary, "mcpvals-"));
const [report, result] = [join(folder, "report.md"), join(folder, "result.json")];
const program = programOf(process.cwd()) ?? installed();
const reporters = [
  "console",
  "github",
  `html=${join(folder, "report.html")}`,
  `markdown=${report}`,
  `json=${result}`,
];
const words = wordsOf(args);
// Other commands have no result to report.
const hasResult = ["attach", "run", "eval", "check", "grade", "merge", "resume", "retry", "show", "report"];
// What stands behind `--` is the server's command.
const end = words.indexOf("--");
const flags = hasResult.includes(words[0]) ? reporters.flatMap((reporter) => ["--reporter", reporter]) : [];
words.splice(end === -1 ? words.length : end, 0, ...flags);
const { status, signal } = spawnSync(process.execPath, [program, ...words], { stdio: "inherit" });
// The file is there and empty where mcpvals ended before there was a result.
const written = existsSync(result) ? readFileSync(result, "utf8") : "";
if (written !== "") appendFileSync(outputs, `verdict=${JSON.parse(written).verdict}\nfolder=${folder}\n`);
else if (hasResult.includes(words[0]))
  console.log(
    `::error title=mcpvals::there is no result; the log of this step says why (exit code ${status})`,
  );
process.exit(signal === null ? (status ?? 3) : 130);

/** The words of a command line, as bash splits it: with quotes and variables, on one line or several. What is not a list of words is refused. */
function wordsOf(line) {
  const script = `words=(${line}\n)\nfor word in "\${words[@]}"; do printf '%s\\0' "$word"; done`;
  const { status, stdout } = spawnSync("bash", ["-c", script], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status === 0) return stdout.split("\0").slice(0, -1);
  console.log("::error title=mcpvals::the input args is not one command line of mcpvals; the log says why");
  process.exit(2);
}

/** The program of the package that is installed in a folder or in one above it. */
function programOf(from) {
  try {
    const manifest = createRequire(join(resolve(from), "any.js")).resolve(`${own.name}/package.json`);
    return join(dirname(manifest), own.bin.mcpvals);
  } catch {
    return undefined;
  }
}

function installed() {
  const place = join(temporary, `mcpvals-${own.version}`);
  const wanted = `${own.name}@${own.version}`;
  console.log(`installing ${wanted}, since the project has none`);
  const { status } = spawnSync("npm", ["install", "--no-save", "--prefix", place, wanted], {
    stdio: "inherit",
  });
  const program = status === 0 ? programOf(place) : undefined;
  if (program !== undefined) return program;
  console.log(
    `::error title=mcpvals::${wanted} could not be installed; install it in the project before this step`,
  );
  process.exit(3);
}
