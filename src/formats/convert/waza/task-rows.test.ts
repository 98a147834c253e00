import { describe, expect, it } from "vitest";
import { fillPrompt, parseCsv, tasksOfRows } from "./task-rows.ts";

const cellsOf = (text: string): unknown => parseCsv(text)?.map(({ cells }) => cells);

describe("a CSV text", () => {
  it.each<[string, string, unknown]>([
    [
      "of lines",
      "a,b\n1,2\n",
      [
        ["a", "b"],
        ["1", "2"],
      ],
    ],
    [
      "with CRLF, without a last line end",
      "a,b\r\n1,",
      [
        ["a", "b"],
        ["1", ""],
      ],
    ],
    ["with empty lines and a byte order mark", "\uFEFFa\n\n\nb\n", [["a"], ["b"]]],
    [
      "with quotes, commas and line ends in cells",
      'a,b\n"x, ""y""","1\n2"\n',
      [
        ["a", "b"],
        ['x, "y"', "1\n2"],
      ],
    ],
    ["with an empty quoted cell", 'a\n""\n', [["a"], [""]]],
    ["with a quote that does not end", 'a\n"x\n', undefined],
    ["with text after a quote", 'a\n"x"y\n', undefined],
    ["without anything", "", []],
  ])("%s", (_, text, expected) => {
    expect(cellsOf(text)).toEqual(expected);
  });
});

describe("rows", () => {
  const tasks = (text: string, range?: readonly [number, number]) => tasksOfRows(parseCsv(text) ?? [], range);

  it("are tasks with the columns as variables", () => {
    const text = "id,name,prompt,city\na,First,Go to {{.Vars.city}},Oslo\n,Second,Stay,\n,,Wait,\n";
    expect(tasks(text)).toEqual([
      {
        at: 20,
        document: { id: "a", name: "First", inputs: { prompt: "Go to {{.Vars.city}}" } },
        variables: { id: "a", name: "First", prompt: "Go to {{.Vars.city}}", city: "Oslo" },
      },
      expect.objectContaining({ document: { id: "Second", name: "Second", inputs: { prompt: "Stay" } } }),
      expect.objectContaining({ document: { id: "row-3", inputs: { prompt: "Wait" } } }),
    ]);
  });

  it("are chosen by a range, which may end after the last one", () => {
    const text = "prompt\na\nb\nc\n";
    const prompts = (range: readonly [number, number]): unknown => {
      const found = tasks(text, range);
      return "message" in found ? found.message : found.map(({ variables }) => variables["prompt"]);
    };
    expect([prompts([2, 2]), prompts([2, 9]), prompts([4, 9])]).toEqual([
      ["b"],
      ["b", "c"],
      "has no row in this range",
    ]);
  });

  it.each([
    ["", "has no row"],
    ["id\na\n", "has no column prompt"],
    ["prompt,a,a\nx,y,z\n", "has two columns of one name"],
    ["prompt,a\nx\n", "has a row with 1 cells and a header with 2"],
  ])("of %j are refused", (text, message) => {
    expect(tasks(text)).toMatchObject({ message });
  });
});

it.each<[string, object]>([
  ["Go to {{.Vars.city}}, {{ .TaskName }}.", { text: "Go to Oslo, t." }],
  ["{city} {{}", { text: "{city} {{}" }],
  ["{{.Vars.town}}", { wrong: "{{.Vars.town}} names no variable", hint: "There are: city." }],
  ["{{.JobID}}", { wrong: "{{.JobID}} cannot be filled in" }],
  ["{{if .Vars.city}}", { wrong: "{{if .Vars.city}} cannot be filled in" }],
])("the prompt %j", (prompt, expected) => {
  expect(fillPrompt(prompt, { taskName: "t", variables: { city: "Oslo" } })).toMatchObject(expected);
});
