import { expect, test } from "vitest";
import { formatSize, previewOf, refusalOf, titleFaultOf, titleOf, typeOf } from "./file-types";

test.each([
  ["Report.PDF", "application/pdf"],
  ["notes.md", "text/markdown"],
  ["a.b.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"],
  ["page.html", null],
  ["drawing.svg", null],
  ["README", null],
])("%s is %s", (name, type) => expect(typeOf(name)).toBe(type));

test("rejects unsupported files with a message", () => {
  expect(refusalOf({ name: "run.exe", size: 1 })).toContain("This type of file cannot be kept here.");
  expect(refusalOf({ name: "a.pdf", size: 0 })).toBe("This file is empty.");
  expect(refusalOf({ name: "a.pdf", size: 50 * 1024 * 1024 })).toBeNull();
  expect(refusalOf({ name: "a.pdf", size: 50 * 1024 * 1024 + 1 })).toBe("This file is larger than 50 MB.");
});

test("default title is the name without extension", () => {
  expect(titleOf("Annual report.v2.pdf")).toBe("Annual report.v2");
  expect(titleOf(`${"x".repeat(300)}.pdf`)).toHaveLength(200);
  expect(titleFaultOf("  ")).toBe("Please provide a title for the file");
  expect(titleFaultOf("a")).toBeNull();
});

test("images and PDF can be previewed", () => {
  expect(["a/b.webp", "a/b.pdf", "a/b.docx"].map(previewOf)).toEqual(["image", "pdf", null]);
});

test("formats sizes", () => expect([12, 2048, 3.4 * 1024 * 1024].map(formatSize)).toEqual(["12 B", "2 kB", "3.4 MB"]));
