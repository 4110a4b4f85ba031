import { act, screen } from "@testing-library/react";
import type { Editor } from "@tiptap/core";
import { useState } from "react";
import { expect, test } from "vitest";
import { renderElement } from "@/test/render";
import { RichTextEditorCore } from "./rich-text-editor-core";

function Harness() {
  const [value, setValue] = useState("<p>Mine</p>");
  return (
    <>
      <RichTextEditorCore value={value} onChange={setValue} id="editor" />
      <button type="button" onClick={() => setValue("<p>Theirs</p>")}>
        Load theirs
      </button>
      <output>{value}</output>
    </>
  );
}

test("shows a newly loaded value", async () => {
  const { user } = renderElement(<Harness />);
  expect(screen.getByRole("textbox")).toHaveTextContent("Mine");
  await user.click(screen.getByRole("button", { name: "Load theirs" }));
  expect(screen.getByRole("textbox")).toHaveTextContent("Theirs");
  // Nothing was typed, so nothing is reported.
  expect(screen.getByRole("status")).toHaveTextContent("<p>Theirs</p>");
});

/** A form that renders only when `pass` is called, as one does on a machine that is slower than the typing. */
function LateHarness({ pass }: { pass: { next: () => void } }) {
  const [value, setValue] = useState("<p>Mine</p>");
  const [waiting] = useState<string[]>([]);
  pass.next = () => {
    const next = waiting.shift();
    if (next !== undefined) setValue(next);
  };
  return <RichTextEditorCore value={value} onChange={(html) => waiting.push(html)} id="editor" />;
}

test("value passed back late keeps text typed meanwhile", () => {
  const pass = { next: () => {} };
  renderElement(<LateHarness pass={pass} />);
  const textbox = screen.getByRole("textbox");
  const { editor } = textbox as HTMLElement & { editor: Editor };
  for (const letter of "One") act(() => void editor.commands.insertContent(letter));
  expect(textbox).toHaveTextContent("OneMine");
  act(() => pass.next());
  expect(textbox).toHaveTextContent("OneMine");
  act(() => pass.next());
  act(() => pass.next());
  expect(textbox).toHaveTextContent("OneMine");
});
