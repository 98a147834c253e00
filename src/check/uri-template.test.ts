import { expect, it } from "vitest";
import { expandTemplate, templateVariables, valuesIn } from "./uri-template.ts";

const values = { var: "value", hello: "Hello World!", path: "/foo/bar", x: "1024", y: "768", empty: "" };

// Examples of RFC 6570, 3.2.
it.each([
  ["{var}", "value"],
  ["{hello}", "Hello%20World%21"],
  ["{path}/here", "%2Ffoo%2Fbar/here"],
  ["{var:3}", "val"],
  ["map?{x,y}", "map?1024,768"],
  ["{+path}/here", "/foo/bar/here"],
  ["{+hello}", "Hello%20World!"],
  ["{#path,x}", "#/foo/bar,1024"],
  ["X{.x,y}", "X.1024.768"],
  ["{/var,x}/here", "/value/1024/here"],
  ["{;x,y}", ";x=1024;y=768"],
  ["{?x,y,empty}", "?x=1024&y=768&empty="],
  ["?fixed=yes{&x}", "?fixed=yes&x=1024"],
  ["a{?undef}{undef}", "a"],
])("%s is expanded", (template, uri) => {
  expect(expandTemplate(template, values)).toBe(uri);
});

it("texts stand in a URI as they are where that is wanted", () => {
  expect(expandTemplate("notes://{path}{?hello}", values, { isRaw: true })).toBe(
    "notes:///foo/bar?hello=Hello World!",
  );
});

it("the variables of a query may be left out", () => {
  expect(templateVariables("db://{table}/{+rest}{?limit,table}")).toEqual([
    { name: "table", isRequired: true },
    { name: "rest", isRequired: true },
    { name: "limit", isRequired: false },
  ]);
});

it.each([
  ["notes://{name}", "notes://a.txt", { name: "a.txt" }],
  ["notes://{name}", "notes://my%20note", { name: "my note" }],
  ["notes://{name}", "notes://a/b", undefined],
  ["notes://{+path}", "notes://a/b", { path: "a/b" }],
  ["notes://{name}", "notes://", undefined],
  ["notes://{name}", "other://a.txt", undefined],
  ["db://{table}/rows/{id}{?limit}", "db://users/rows/7", { table: "users", id: "7" }],
  ["db://{table}/rows/{id}{?limit}", "db://users/rows/7?limit=3", { table: "users", id: "7", limit: "3" }],
  ["db://{table}/rows", "db://users/rows/7", undefined],
  ["db://tables", "db://tables", {}],
])("the values of %s in %s", (template, uri, values) => {
  expect(valuesIn(template, uri)).toEqual(values);
});
