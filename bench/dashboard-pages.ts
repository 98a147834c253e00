import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Page as BrowserPage } from "playwright-core";
import { evaluate } from "../src/index.ts";
import { startBrowser } from "../test/dashboard/browser.ts";
import { timeOpening } from "./bare-browser.ts";
import { longTrial, longTrialEvents } from "./dashboard-documents.ts";
import type { Row } from "./measure.ts";
import { runTrials } from "./trial-overhead.ts";

const trials = 100_000;
const tasks = 10_000;

interface Page {
  readonly name: string;
  /** Behind the `#`. */
  readonly path: string;
  /** What is there when the page can be used. */
  readonly opened: string;
  readonly use: (page: BrowserPage) => Promise<void>;
}

/** How long pages of a large run and of a long trial take to open, and how long they stall while they are used. */
export async function dashboardPages(): Promise<readonly Row[]> {
  const cwd = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  const runs = join(cwd, ".mcpvals", "runs");
  try {
    const { id } = (await runTrials(trials, cwd, tasks)).result;
    const long = await evaluate(longTrial(), { output: runs });
    return await withDashboard(cwd, (address) => measurePages(address, pagesOf(id, long.id)));
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}

/** Calls back with the address of a dashboard of the runs in `cwd`, a process of its own. */
async function withDashboard<T>(cwd: string, use: (address: string) => Promise<T>): Promise<T> {
  const main = resolve(import.meta.dirname, "../dist/main.js");
  const child = spawn(process.execPath, [main, "dashboard", "--no-open", "--port", "0"], {
    cwd,
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      const [address] = /http:\S+/.exec(line) ?? [];
      if (address !== undefined) return await use(address);
    }
    throw new Error("the dashboard ended before it said its address");
  } finally {
    child.kill();
    if (child.exitCode === null) await once(child, "exit");
  }
}

function pagesOf(run: string, long: string): readonly Page[] {
  const large = `dashboard, ${trials} trials`;
  const trial = `dashboard, trial of ${longTrialEvents} events`;
  const [row, item] = ["tbody tr a", "main section li button"];
  return [
    { name: `${large}, tasks`, path: `/runs/${run}`, opened: row, use: scroll },
    { name: `${large}, trials`, path: `/runs/${run}/trials`, opened: row, use: scroll },
    { name: `${trial}, trajectory`, path: `/runs/${long}/trials/t1`, opened: item, use: scroll },
    { name: `${trial}, waterfall`, path: `/runs/${long}/trials/t1?show=all`, opened: item, use: zoom },
    { name: `${trial}, events`, path: `/runs/${long}/trials/t1?view=events`, opened: item, use: scroll },
  ];
}

async function measurePages(address: string, pages: readonly Page[]): Promise<readonly Row[]> {
  // Without what Playwright records of each answer, which takes as long as the page itself.
  const times = await timeOpening(
    address,
    pages.map(({ path, opened }) => ({ hash: path, opened })),
  );
  const browser = await startBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(address);
    const rows: Row[] = [];
    for (const [index, { name, path, opened, use }] of pages.entries()) {
      await page.goto(new URL(`/#${path}`, address).href);
      await page.locator(opened).first().waitFor();
      await page.evaluate(watchFrames);
      await use(page);
      const stall = await page.evaluate<number>("window.longestFrame");
      const elapsed = times[index] ?? Number.POSITIVE_INFINITY;
      rows.push({
        name,
        measured: `open ${Math.round(elapsed)} ms, longest stall ${Math.round(stall)} ms`,
        floor: "-",
        target: "open within 2 s, no stall over 100 ms",
        holds: elapsed < 2000 && stall <= 100,
      });
    }
    return rows;
  } finally {
    await browser.close();
  }
}

/** Notes the longest time between two frames. */
const watchFrames = `
  window.longestFrame = 0;
  let before = performance.now();
  const next = (now) => {
    window.longestFrame = Math.max(window.longestFrame, now - before);
    before = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame((now) => { before = now; next(now); });`;

/** Scrolls the long list of a page to its end in steps, one a frame, then slowly. */
async function scroll(page: BrowserPage): Promise<void> {
  await page.evaluate(`new Promise((done) => {
    const list = [...document.querySelectorAll("main :is(div, section)")].find((each) => each.scrollHeight > each.clientHeight + 1000);
    const step = list.scrollHeight / 120;
    let frames = 0;
    const next = () => {
      list.scrollTop += frames < 60 ? step * 1.5 : 50;
      frames += 1;
      if (frames < 180) requestAnimationFrame(next); else done();
    };
    requestAnimationFrame(next);
  })`);
}

/** Chooses the middle third of the waterfall with the mouse, points at what is in it, and shows all again. */
async function zoom(page: BrowserPage): Promise<void> {
  const box = await page.getByTestId("waterfall").locator("canvas").boundingBox();
  if (box === null) throw new Error("the waterfall is not in view");
  const at = (share: number): [number, number] => [box.x + box.width * share, box.y + box.height * 0.7];
  for (let zooms = 0; zooms < 3; zooms += 1) {
    await page.mouse.move(...at(0.33));
    await page.mouse.down();
    await page.mouse.move(...at(0.66), { steps: 30 });
    await page.mouse.up();
    await page.mouse.move(...at(0.1), { steps: 30 });
    await page.getByRole("button", { name: "Show all" }).click();
  }
}
