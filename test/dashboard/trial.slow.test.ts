import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { TrialDocument } from "../../src/report/documents/documents.ts";
import { formatDuration } from "../../dashboard/src/format.ts";
import { runHere } from "../support/cli.ts";
import { everythingServer, exampleServer } from "../support/programs.ts";
import { faultsOfPages, hasBrowser, type Look, openPage, startBrowser } from "./browser.ts";
import { runAndOpen, soon } from "./support.ts";

const hostile =
  '<img src=x onerror="pwned=1"> </script><script>pwned=1</script> javascript:pwned=1 \u202egnp\u001b[31m';
const shownHostile = String.raw`<img src=x onerror="pwned=1"> </script><script>pwned=1</script> javascript:pwned=1 \u202egnp\x1b[31m`;
const large = `begin ${"all work and no play ".repeat(20_000)}end`;

/** An image in a text, between words. */
const image = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, ...Array(99_992).fill(7)]);
const withImage = `Before it ${image.toString("base64")} and behind it`;

/** More than fits on a screen, as a reason and as calls. */
const longReason = Array.from({ length: 40 }, (_, n) => `words that are missing ${n}`);
const manyCalls = Array.from({ length: 60 }, (_, a) => ({ call: "add", args: { a, b: 1 } }));

/**
 * A trial with two servers, a step, calls that succeed, fail, do not fit, and return an image; one that fails; one that fails for
 * a long reason after many calls.
 */
const config = {
  name: "shop",
  servers: {
    calc: { transport: "stdio", command: process.execPath, args: [exampleServer] },
    everything: { transport: "stdio", command: process.execPath, args: [everythingServer] },
    shop: {
      transport: "mock",
      mock: {
        tools: {
          say: { description: hostile, responses: [{ return: hostile }] },
          tell: { responses: [{ return: large }] },
          draw: { responses: [{ return: withImage }] },
        },
      },
    },
  },
  agent: "careful",
  workflows: [
    {
      name: "sum",
      servers: ["calc", "everything", "shop"],
      steps: [{ user: hostile, expectedState: "5" }],
      expectTools: ["add"],
    },
    {
      name: "wrong sum",
      servers: ["calc"],
      steps: [{ user: "What is 2 + 3?", expectedState: "5" }],
      expectTools: ["add"],
    },
    {
      name: "long",
      servers: ["calc"],
      steps: [{ user: "Add.", expectedState: "added" }],
      graders: [{ type: "text", name: "says it", config: { contains: longReason } }],
    },
  ],
  agents: {
    careful: {
      type: "scripted",
      plan: {
        sum: [
          { call: "add", server: "calc", args: { a: 2, b: 3 } },
          { call: "add", server: "calc", args: { a: "two", b: 3 } },
          { call: "get-tiny-image", args: {} },
          { call: "say", args: { [hostile]: hostile } },
          { call: "tell", args: {} },
          { call: "draw", args: {} },
          { say: `It is 5. ${hostile}` },
        ],
        "wrong sum": [{ call: "add", args: { a: 2, b: 2 } }, { say: "It is 4." }],
        long: [...manyCalls, { say: "It is added." }],
      },
    },
  },
};

let dashboard: Awaited<ReturnType<typeof runAndOpen>>;
let browser: Browser;
let report = "";
let trial: TrialDocument;

beforeAll(async () => {
  if (!hasBrowser) return;
  dashboard = await runAndOpen(config, { args: ["run", "--reporter", "html=report.html"] });
  report = join(dashboard.path, "report.html");
  trial = await dashboard.trial(dashboard.id, "t1");
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await dashboard?.[Symbol.asyncDispose]();
});

const wide: Look = { theme: "light", width: 1280 };
const open = (look: Look = wide) => openPage(browser, dashboard.served.address(), look);
const trialPath = (id = "t1"): string => `/runs/${dashboard.id}/trials/${id}`;
const items = (page: Page) => page.getByRole("region", { name: "What happened" }).getByRole("button");
const details = (page: Page) => page.getByRole("complementary");
/** The number of the event with which the call of a tool begins. */
const callOf = (tool: string, nth = 0): number =>
  trial.items.filter((item) => item.kind === "call" && item.tool === tool)[nth]?.seq ?? 0;

// Each takes seconds, and the browser is another program on a machine that may be busy.
describe.skipIf(!hasBrowser)("the page of a trial", { timeout: 120_000 }, () => {
  it("is accessible, fits and loads nothing from elsewhere, light and dark, on a wide screen and on a phone", async () => {
    await using opened = await open();
    const views = ["", "?show=all", "?view=grades", "?view=events&event=12", "?view=task"];
    const faults = await faultsOfPages(opened, [
      ...views.map((view) => trialPath() + view),
      `${trialPath()}?event=${callOf("add", 1)}`,
      trialPath("t2"),
      `/compare/trials?a=${dashboard.id}/t1&b=${dashboard.id}/t2`,
      "/compare/trials",
    ]);
    expect(faults).toEqual([]);
    expect(await opened.page.evaluate("'pwned' in window")).toBe(false);
  });

  it("shows prompts, calls and results of servers as text", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath());
    await items(page)
      .filter({ hasText: `User${shownHostile}` })
      .waitFor();
    await items(page)
      .filter({ hasText: `It is 5. ${shownHostile}` })
      .waitFor();
    await go(`${trialPath()}?event=${callOf("say")}`);
    await details(page).getByText(shownHostile).first().waitFor();
    expect(await page.locator("main img").count()).toBe(0);
  });

  it("says what of the arguments does not fit, and which grades cite a call", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(`${trialPath()}?event=${callOf("add", 1)}`);
    const faults = details(page).getByRole("list", { name: "What does not fit the schema of the tool" });
    expect(await faults.innerText()).toMatch(/^\/a: .*number/);
    await details(page).getByText("failed", { exact: true }).waitFor();
    await details(page).getByRole("heading", { name: "Evidence of" }).waitFor();
    await details(page).getByText("tool-call-health").waitFor();
  });

  it("shows an image of a tool when asked to", async () => {
    await using opened = await open();
    const { page, problems, go } = opened;
    await go(`${trialPath()}?event=${callOf("get-tiny-image")}`);
    await page.getByRole("button", { name: "Show the image" }).click();
    await page.getByRole("img", { name: "From the result of the tool" }).waitFor();
    const width = () => page.evaluate<number>("document.querySelector('main img').naturalWidth");
    await soon(width).toBeGreaterThan(0);
    expect(problems).toEqual([]);
  });

  it("shows a large text in parts", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(`${trialPath()}?event=${callOf("tell")}`);
    const text = details(page).locator("pre").nth(1);
    expect((await text.innerText()).length).toBeLessThan(1000);
    for (const least of [50_000, 100_000]) {
      await details(page)
        .getByRole("button", { name: /^Show more/ })
        .click();
      await soon(async () => (await text.innerText()).length).toBeGreaterThanOrEqual(least);
    }
  });

  it("says how much of large texts a search looks at", async () => {
    await using opened = await open();
    const { page, go } = opened;
    const limit = "Of each text, the first 400 characters are searched.";
    for (const [text, count, more] of [
      ["begin all", 1, `. ${limit}`],
      ["playend", 0, `. ${limit}`],
    ] as const) {
      await go(`${trialPath()}?text=${encodeURIComponent(text)}`);
      await page.getByText(`${count} of ${trial.items.length} items${more}`).waitFor();
    }
    await page.getByText(`Change the filters to see more. ${limit}`).waitFor();
    await go(`${trialPath("t2")}?text=add`);
    await page.getByText(/of \d+ items$/).waitFor();
    await go(`${trialPath()}?view=events&text=play`);
    await page.getByText("Only the lines of this list are searched.").waitFor();
  });

  it("folds base64, says what and how large it is, and shows it and what is behind it", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(`${trialPath()}?event=${callOf("draw")}`);
    const text = details(page).locator("pre").nth(1);
    await text.getByRole("button", { name: "Show the beginning of base64 of image/png" }).waitFor();
    await details(page)
      .getByRole("button", { name: /^Show more/ })
      .click();
    const fold = text.getByRole("button", { name: "Show base64 of image/png, 100,000 bytes" });
    await fold.click();
    const shown = async () => (await text.innerText()).length;
    await soon(shown).toBeGreaterThan(50_000);
    const more = text.getByRole("button", { name: /^… Show more of it/ });
    await more.click();
    await more.click();
    await soon(shown).toBeGreaterThan(withImage.length);
    expect(await more.count()).toBe(0);
    await text.getByRole("button", { name: "Hide base64 of image/png, 100,000 bytes" }).click();
    const rest = details(page).getByRole("button", { name: /^Show more/ });
    if ((await rest.count()) > 0) await rest.click();
    await soon(() => text.innerText()).toBe(
      "Before it Show base64 of image/png, 100,000 bytes and behind it",
    );
  });

  it("moves through items with the keyboard, and keeps the selected one in the address", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath());
    await page.keyboard.press("j");
    await details(page).getByRole("heading", { name: "User" }).waitFor();
    await page.keyboard.press("j");
    await details(page).getByRole("heading", { name: "add" }).waitFor();
    expect(page.url()).toContain(`event=${callOf("add")}`);
    await page.keyboard.press("k");
    await details(page).getByRole("heading", { name: "User" }).waitFor();
    expect(await page.locator(":focus").getAttribute("aria-pressed")).toBe("true");
    await page.keyboard.press("Escape");
    await soon(() => details(page).count()).toBe(0);
    await page.keyboard.press("]");
    await page.getByRole("heading", { level: 1, name: "wrong sum" }).waitFor();
  });

  it("leads back out of the details, to the view before, and to the page before, however many items were selected", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(`/runs/${dashboard.id}`);
    await page
      .getByRole("link", { name: /^Attempt 1: Fail/ })
      .first()
      .click();
    const heading = page.getByRole("heading", { level: 1 });
    await page.getByRole("tab", { name: /^Grades/ }).click();
    const evidence = page.getByRole("tabpanel").getByRole("link", { name: /in the trajectory$/ });
    await evidence.first().click();
    await details(page).waitFor();
    const cited = page.url();
    for (const _ of [1, 2, 3]) await page.keyboard.press("k");
    await page.waitForURL((url) => url.href !== cited);
    await page.goBack();
    await evidence.first().waitFor();
    await page.goBack();
    await items(page).first().waitFor();
    for (const _ of [1, 2, 3]) await page.keyboard.press("j");
    await details(page).waitFor();
    await page.goBack();
    await soon(() => details(page).count()).toBe(0);
    await items(page).first().waitFor();
    expect(await heading.innerText()).not.toBe("shop");
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "shop" }).waitFor();
  });

  it.each([
    ["a wide screen", 1280],
    ["a phone", 390],
  ])("brings the selected item and its details into view on %s", async (_, width) => {
    await using opened = await open({ theme: "light", width });
    const { page, go } = opened;
    const long = await dashboard.trial(dashboard.id, "t3");
    const calls = long.items.filter(({ kind }) => kind === "call");
    const selected = page.locator("main [aria-pressed=true]");
    const inView = async (): Promise<boolean> => {
      const { height = 0 } = page.viewportSize() ?? {};
      const [row, pane] = [await selected.boundingBox(), await details(page).boundingBox()];
      const list = await page.getByRole("region", { name: "What happened" }).boundingBox();
      if (row === null || pane === null || list === null) return false;
      const isIn = (box: { y: number; height: number }, { y, height: most }: { y: number; height: number }) =>
        box.y >= y - 1 && box.y + box.height <= y + most + 1;
      const screen = { y: 0, height };
      return isIn(row, list) && isIn(list, screen) && isIn(pane, screen) && pane.height > 150;
    };
    const seq = calls[40]?.seq ?? 0;
    await go(`${trialPath("t3")}?event=${seq}`);
    await soon(inView).toBe(true);
    await page.reload();
    await soon(inView).toBe(true);
    await page.keyboard.press("k");
    await soon(() => page.url()).toContain(`event=${calls[39]?.seq}`);
    await soon(inView).toBe(true);
    await page.keyboard.press("Escape");
    await soon(() => details(page).count()).toBe(0);
    const reasons = page.getByRole("list", { name: "Why it did not pass" });
    await reasons.getByRole("button", { name: "Show all" }).click();
    await reasons.getByRole("button", { name: "Show less" }).waitFor();
    await reasons.getByRole("link").last().click();
    await soon(inView).toBe(true);
  });

  it("keeps the focus with what is selected, and has one stop of Tab in each list", async () => {
    await using opened = await open();
    const { page, go } = opened;
    const focused = page.locator("main :focus");
    const follow = async (key: string, name: RegExp): Promise<void> => {
      await page.keyboard.press(key);
      await soon(
        async () => (await focused.getAttribute("aria-label")) ?? (await focused.innerText()),
      ).toMatch(name);
    };
    await go(`${trialPath("t2")}?view=grades`);
    await page.getByRole("tabpanel").getByRole("link").first().focus();
    await follow("Enter", /It is 4/);
    await follow("ArrowUp", /add/);
    await follow("Tab", /Close the details/);
    await follow("Enter", /add/);
    await follow("Enter", /add/);
    await follow("Tab", /Close the details/);
    await follow("Tab", /^Event \d+ as it was recorded/);
    await follow("Enter", /tools\/call/);
    await follow("ArrowDown", /result/);
    await follow("Tab", /Close the event/);
    await follow("Escape", /result/);
    await page.getByRole("tab", { name: "Trajectory" }).focus();
    await follow("Enter", /Trajectory/);
  });

  it("says of an event that the trial does not have it, and links one that is no item of its own", async () => {
    await using opened = await open();
    const { page, go } = opened;
    for (const view of ["", "view=events&"]) {
      const last = trial.events.at(-1)?.seq;
      for (const event of ["99999", "abc", "true", '{"a":1}', "-1", "1.5"]) {
        await go(`${trialPath()}?${view}event=${encodeURIComponent(event)}`);
        const words = `This trial has no event ${event}. Its events have the numbers 1 to ${last}.`;
        await page.getByRole("alert").getByText(words).waitFor();
        expect(await details(page).count()).toBe(0);
      }
    }
    const graded = trial.events.find(({ type }) => type === "trial.graded")?.seq ?? 0;
    await go(`${trialPath()}?event=${graded}`);
    await details(page).getByRole("heading", { name: "trial.finished" }).waitFor();
    await details(page)
      .getByRole("link", { name: `Event ${graded} as it was recorded` })
      .waitFor();
    const end = trial.items.find((item) => item.kind === "event" && item.type === "trial.finished");
    expect(end?.durationMs).toBeUndefined();
    expect(end?.at).toBe(trial.events.find(({ type }) => type === "trial.finished")?.at);
  });

  it("replays a trial item by item, and at a chosen speed", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath());
    const all = await items(page).count();
    for (const [key, count] of [
      [".", 1],
      [".", 2],
      [".", 3],
      [",", 2],
      [",", 1],
      [",", 0],
    ] as const) {
      await page.keyboard.press(key);
      await soon(() => items(page).count()).toBe(count);
    }
    // What has not ended yet has no result.
    const running = items(page).filter({ hasText: "running" });
    let presses = 0;
    while ((await running.count()) === 0 && (presses += 1) <= all) await page.keyboard.press(".");
    expect(await running.count()).toBe(1);
    await page.getByLabel("Speed of the replay").selectOption("50×");
    await page.getByRole("button", { name: "Play", exact: true }).click();
    await soon(() => items(page).count()).toBe(all);
    await page.getByRole("button", { name: "Play", exact: true }).waitFor();
    expect(await running.count()).toBe(0);
    await page.keyboard.press("0");
    await page.getByRole("button", { name: "Replay" }).waitFor();
  });

  it("selects in the waterfall what is clicked, enlarges what is drawn, and filters by lane", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath());
    const canvas = page.getByRole("img", { name: /^Waterfall/ });
    const box = await canvas.boundingBox();
    const end = Math.max(...trial.items.map(({ at, durationMs = 0 }) => at + durationMs));
    const origin = trial.items.find((item) => item.kind === "phase" && item.name === "agent")?.at ?? 0;
    const call = trial.items.find(({ seq }) => seq === callOf("tell"));
    const lanes = await page
      .getByRole("list", { name: "Lanes of the waterfall" })
      .getByRole("listitem")
      .allInnerTexts();
    expect(lanes).toEqual(["agent", "calc", "everything", "shop"]);
    if (box === null || call === undefined) throw new Error("there is no waterfall, or no call in it");
    const x = ((call.at + (call.durationMs ?? 0) / 2 - origin) / (end - origin)) * box.width;
    const y = 18 + 22 * lanes.indexOf("shop") + 11;
    await canvas.hover({ position: { x, y } });
    const waterfall = page.getByTestId("waterfall");
    const before = await waterfall.boundingBox();
    await canvas.click({ position: { x, y } });
    await details(page).waitFor();
    expect((await waterfall.boundingBox())?.height).toBe(before?.height);
    // The page may have scrolled to the details.
    const at = (await canvas.boundingBox())?.y ?? 0;
    const from = box.x + box.width / 2;
    await page.mouse.move(from, at + y);
    await page.mouse.down();
    await page.mouse.move(from + 100, at + y);
    await page.mouse.up();
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByLabel("Lane", { exact: true }).selectOption("everything");
    await page.keyboard.press("Escape");
    await soon(() => items(page).count()).toBe(1);
  });

  it("begins its time with the agent, and folds the start of the servers", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath());
    const first = items(page).filter({ hasText: "User" }).first();
    const agent = trial.items.find((item) => item.kind === "phase" && item.name === "agent");
    const user = trial.items.find(({ kind }) => kind === "turn");
    if (agent === undefined || user === undefined) throw new Error("there is no agent, or no user");
    expect((await first.innerText()).split("\n")[0]).toBe(formatDuration(user.at - agent.at));
    const canvas = page.getByRole("img", { name: /^Waterfall/ });
    const folded = await canvas.screenshot({ animations: "disabled" });
    const button = page.getByRole("button", { name: /^Show the start-up \(/ });
    await button.click();
    await page.getByRole("button", { name: /^Fold the start-up/ }).waitFor();
    await soon(async () => (await canvas.screenshot({ animations: "disabled" })).equals(folded)).toBe(false);
    await page.getByRole("button", { name: /^Fold the start-up/ }).click();
    await button.waitFor();
    // What was before the agent is shown when it is selected.
    const started = trial.items.find(({ phase }) => phase === "servers");
    await go(`${trialPath()}?show=all&event=${started?.seq}`);
    await page.getByRole("button", { name: /^Fold the start-up/ }).waitFor();
    await details(page).getByText(/^−\d/).waitFor();
  });

  it("shows a call's result beside its arguments, its task as YAML, and leads to the other trials of the task", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath("t2"));
    await items(page)
      .filter({ hasText: /add\{ "a": 2, "b": 2 \}→gives.*4/ })
      .waitFor();
    await page.getByRole("tab", { name: "Task" }).click();
    await page
      .getByRole("tabpanel")
      .getByText(/^name: wrong sum\nform: workflow\nservers:\n {2}- calc/)
      .waitFor();
    await page.getByText(/^Written in mcp-eval\.config\.json:\d+\. This is how it was planned/).waitFor();
    expect(await page.getByRole("link", { name: "Previous trial of this task" }).count()).toBe(0);
  });

  it("enlarges and moves the waterfall with the keyboard, and has a legend of what is in it", async () => {
    await using opened = await open({ theme: "dark", width: 390 });
    const { page, go } = opened;
    await go(trialPath());
    const waterfall = page.getByRole("region", { name: "Waterfall" });
    const legend = waterfall.getByRole("list", { name: "Legend of the waterfall" }).getByRole("listitem");
    expect(await legend.allInnerTexts()).toEqual([
      "message, call or step",
      "turn, protocol and output",
      "failed",
    ]);
    const range = () => waterfall.locator("output").innerText();
    expect(await range()).toBe("");
    const seen: string[] = [];
    for (const key of ["+", "+", "h", "l", "-"]) {
      await page.keyboard.press(key);
      await soon(range).not.toBe(seen.at(-1) ?? "");
      seen.push(await range());
    }
    expect(seen.every((each) => / to /.test(each))).toBe(true);
    expect(seen[3]).toBe(seen[1]);
    // What is shown ends where the trial does.
    for (let count = 0; count < 20; count += 1) await page.keyboard.press("l");
    const last = await range();
    await page.keyboard.press("l");
    expect([await range(), / to /.test(last)]).toEqual([last, true]);
    await page.keyboard.press("a");
    await soon(range).toBe("");
    await waterfall.getByRole("button", { name: "Enlarge in the waterfall" }).click();
    await waterfall.getByRole("button", { name: "Later in the waterfall" }).click();
    await soon(range).toMatch(/ to /);
    await page.getByLabel("Find text in items").focus();
    await page.keyboard.press("a");
    await soon(range).toMatch(/ to /);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("Waterfall: enlarge").waitFor();
  });

  it("marks calls that failed grades cite, without a verdict on the calls themselves", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath("t2"));
    await items(page)
      .filter({ hasText: /add.*evidence of a fail/ })
      .waitFor();
    await go(trialPath());
    expect(await items(page).filter({ hasText: "trial.graded" }).count()).toBe(0);
  });

  it("leads from a failed grade to its evidence, and to the events as they were recorded", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath("t2"));
    const reasons = page.getByRole("list", { name: "Why it did not pass" });
    await reasons.getByText("end-to-end-success").waitFor();
    await reasons.getByRole("link").first().click();
    await details(page).waitFor();
    await details(page)
      .getByRole("link", { name: /as it was recorded$/ })
      .first()
      .click();
    await page.getByRole("heading", { name: /^Event \d+$/ }).waitFor();
    await details(page).getByText('"jsonrpc"').or(details(page).getByText('"type"')).first().waitFor();
  });

  it("aligns the calls of two trials", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(`/compare/trials?a=${dashboard.id}/t1&b=${dashboard.id}/t2`);
    await page.getByText("6 of 6 calls differ").waitFor();
    const relations = await page.locator("tbody td:first-child").allInnerTexts();
    expect(relations).toEqual(["changed: arguments, result", ...Array<string>(5).fill("only A")]);
  });

  it("shows equal calls of two trials in one line each, and all of them on demand", async () => {
    await using opened = await open();
    const { page, go } = opened;
    const { length } = manyCalls;
    await go(`/compare/trials?a=${dashboard.id}/t3&b=${dashboard.id}/t3`);
    await page.getByText(`All ${length} calls are equal`).waitFor();
    expect(await page.locator("tbody tr").count()).toBe(length);
    expect(await page.locator("tbody pre").count()).toBe(0);
    await page.getByRole("button", { name: "Show the calls of add" }).nth(7).click();
    expect(await page.locator("tbody pre").allInnerTexts()).toContain("7 + 1 = 8");
    await page.getByRole("button", { name: "Hide the calls of add" }).click();
    await page.locator("tbody pre").first().waitFor({ state: "detached" });
  });
});

describe.skipIf(!hasBrowser)("the reporter html", () => {
  it("writes a page that shows the run without a server, with nothing from elsewhere", async () => {
    await using opened = await openPage(browser, pathToFileURL(report).href, wide);
    const { page, go } = opened;
    await page.getByRole("heading", { level: 1, name: "shop" }).waitFor();
    await page
      .getByRole("link", { name: /^Attempt 1: Fail/ })
      .first()
      .click();
    await page.getByRole("tab", { name: /^Events/ }).click();
    await page.getByRole("region", { name: "Events" }).getByRole("button").nth(3).click();
    await page.getByText('"trial"').first().waitFor();
    await go(`${trialPath()}?event=${callOf("get-tiny-image")}`);
    await page.getByRole("button", { name: "Show the image" }).click();
    await page.getByRole("img", { name: "From the result of the tool" }).waitFor();
    await go(`${trialPath()}?event=${callOf("say")}`);
    await page.getByText(shownHostile).first().waitFor();
    const faults = await faultsOfPages(opened, ["/", `/runs/${dashboard.id}/servers`, trialPath()]);
    expect(faults).toEqual([]);
    expect(await page.evaluate("'pwned' in window")).toBe(false);
  });

  it("is small without its data, and can be written again for a recorded run", async () => {
    const text = readFileSync(report, "utf8");
    const [, data = ""] = /<script type="application\/json" id="report">(.*?)<\/script>/s.exec(text) ?? [];
    expect(data.length).toBeGreaterThan(10_000);
    expect(statSync(report).size - Buffer.byteLength(data)).toBeLessThan(2_000_000);
    const cwd = dashboard.path;
    const { code } = await runHere(["show", "--reporter", "html=again.html"], { cwd });
    expect(code).toBe(1);
    // Validation has a limit of time, so what is known of arguments may differ.
    const runIn = (page: string) => /id="report">(.*?),"trials":\{/s.exec(page)?.[1];
    expect(runIn(readFileSync(join(cwd, "again.html"), "utf8")) === runIn(text)).toBe(true);
    expect(runIn(text)).toContain(dashboard.id);
  });
});
