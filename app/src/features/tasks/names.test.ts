import { expect, test } from "vitest";
import { lastName, membersAmong, toNames } from "./names";

test("names are separated by commas", () => {
  expect(toNames(" Maya ,, Tom ")).toEqual(["Maya", "Tom"]);
  expect(lastName("Maya, To")).toEqual({ before: "Maya,", typed: "To" });
  expect(lastName("Ma")).toEqual({ before: "", typed: "Ma" });
  expect(lastName("Maya, ")).toEqual({ before: "Maya,", typed: "" });
});

test("members are found by name or address; other names have no id", () => {
  const members = [
    { id: "1", name: "Maya Fischer", email: "maya@example.org" },
    { id: "2", name: "Tom", email: null },
    { id: "3", name: "Tom", email: "tom@example.org" },
  ];
  expect(membersAmong(["maya fischer", "The board"], members)).toEqual(["1"]);
  expect(membersAmong(["MAYA@example.org"], members)).toEqual(["1"]);
  expect(membersAmong(["Tom"], members)).toEqual(["2", "3"]);
  expect(membersAmong([], members)).toEqual([]);
});
