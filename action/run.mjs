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
const flags = reporters.map((reporter) => `--reporter ${quoted(reporter)}`).join(" ");
// What stands behind `--` is the server's command.
const [, before = "", after = ""] = /^(.*?)((?:\s--\s.*)?)$/s.exec(args) ?? [];
const command = `${quoted(process.execPath)} ${quoted(program)} ${before} ${flags}${after}`;
const { status, signal } = spawnSync("bash", ["-c", command], { stdio: "inherit" });
// The file is there and empty where mcpvals ended before there was a result.
const written = existsSync(result) ? readFileSync(result, "utf8") : "";
if (written !== "") appendFileSync(outputs, `verdict=${JSON.parse(written).verdict}\nfolder=${folder}\n`);
else
  console.log(
    `::error title=mcpvals::there is no result; the log of this step says why (exit code ${status})`,
  );
process.exit(signal === null ? (status ?? 3) : 130);

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

function quoted(text) {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
