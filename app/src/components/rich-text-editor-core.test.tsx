import { screen } from "@testing-library/react";
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
