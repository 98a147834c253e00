// Writes the report in Markdown as a comment on the pull request of the workflow, or replaces the one of an earlier run. A token that
// may not comment, as of a pull request from a fork, is a notice and no failure.
import { existsSync, readFileSync } from "node:fs";

const {
  MCPVALS_REPORT: report = "",
  MCPVALS_NAME: name = "mcpvals",
  GITHUB_TOKEN: token = "",
  GITHUB_EVENT_PATH: eventPath = "",
  GITHUB_API_URL: api = "https://api.github.com",
  GITHUB_SERVER_URL: server = "https://github.com",
  GITHUB_REPOSITORY: repository = "",
  GITHUB_RUN_ID: run = "",
} = process.env;

/** GitHub refuses a comment of more characters than 65,536. */
const maxLength = 60_000;

const event = existsSync(eventPath) ? JSON.parse(readFileSync(eventPath, "utf8")) : {};
const number = event.pull_request?.number;
if (number === undefined) {
  console.log("no comment: this is not a run of a pull request");
  process.exit(0);
}
const mark = `<!-- mcpvals: ${name.replaceAll("--", "")} -->`;
const comments = `${api}/repos/${repository}/issues/${number}/comments`;
const earlier = await find();
const written = await send(earlier?.url ?? comments, earlier === undefined ? "POST" : "PATCH", {
  body: body(),
});
console.log(`${earlier === undefined ? "commented" : "replaced the comment"}: ${written.html_url}`);

function body() {
  const text = readFileSync(report, "utf8");
  const link = `[Log and report](${server}/${repository}/actions/runs/${run})`;
  const shown =
    text.length <= maxLength
      ? text
      : `${text.slice(0, text.lastIndexOf("\n", maxLength))}\n\n… more is in the report.\n`;
  return `${mark}\n${shown}\n${link}\n`;
}

async function find() {
  for (let page = 1; ; page += 1) {
    const list = await send(`${comments}?per_page=100&page=${page}`, "GET");
    // Anyone can write the mark, and could change that comment afterwards.
    const found = list.find(({ body: text, user }) => text?.startsWith(mark) && user?.type === "Bot");
    if (found !== undefined || list.length < 100) return found;
  }
}

/** Asks GitHub; whatever goes wrong is said, and fails no job. */
async function send(url, method, content) {
  try {
    return await ask(url, method, content);
  } catch (error) {
    console.log(`::warning title=mcpvals::no comment: GitHub could not be asked: ${error.message}`);
    process.exit(0);
  }
}

async function ask(url, method, content) {
  const response = await fetch(url, {
    method,
    headers: {
      accept: "application/vnd.github+json",
      authorization: `Bearer ${token}`,
      "x-github-api-version": "2022-11-28",
    },
    ...(content === undefined ? {} : { body: JSON.stringify(content) }),
  });
  if (response.ok) return response.json();
  const why = `GitHub answered ${method} with HTTP ${response.status}`;
  if ([401, 403, 404].includes(response.status)) {
    console.log(
      `::notice title=mcpvals::no comment: ${why}; the job needs the permission pull-requests: write, which forks do not get`,
    );
    process.exit(0);
  }
  console.log(`::warning title=mcpvals::no comment: ${why}`);
  process.exit(0);
}
