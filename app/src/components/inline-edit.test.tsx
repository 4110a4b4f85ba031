import { screen } from "@testing-library/react";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { InlineEdit } from "./inline-edit";

const faultOf = (text: string) => (text.length < 3 ? "Too short" : null);

function Harness({ save }: { save: (text: string, seen: string) => Promise<boolean> }) {
  const [value, setValue] = useState("Hall");
  return (
    <>
      <InlineEdit label="Rename Hall" value={value} faultOf={faultOf} save={save}>
        <h1 className="inline">{value}</h1>
      </InlineEdit>
      <button type="button" onMouseDown={(event) => event.preventDefault()} onClick={() => setValue("Theirs")}>
        Colleague
      </button>
      <button type="button">Elsewhere</button>
    </>
  );
}

async function open(save: (text: string, seen: string) => Promise<boolean>) {
  const { user } = renderPage(<Harness save={save} />);
  await user.click(screen.getByRole("button", { name: "Rename Hall" }));
  return { user, field: screen.getByRole("textbox", { name: "Rename Hall" }) };
}

test("Enter saves and returns the focus to the button", async () => {
  const save = vi.fn(async () => true);
  const { user } = await open(save);
  await user.keyboard("Two halls{Enter}");
  expect(save).toHaveBeenCalledExactlyOnceWith("Two halls", "Hall");
  expect(await screen.findByRole("button", { name: "Rename Hall" })).toBeVisible();
  await vi.waitFor(() => expect(screen.getByRole("button", { name: "Rename Hall" })).toHaveFocus());
  expect(screen.getByRole("heading", { name: "Hall" })).toBeInTheDocument();
});

test("Escape and unchanged text do not save", async () => {
  const save = vi.fn(async () => true);
  const { user } = await open(save);
  await user.keyboard("Never mind{Escape}");
  await user.click(screen.getByRole("button", { name: "Rename Hall" }));
  await user.keyboard("{Enter}");
  expect(screen.queryByRole("textbox")).not.toBeInTheDocument();
  expect(save).not.toHaveBeenCalled();
});

test("blur saves; invalid text stays with its error", async () => {
  const save = vi.fn(async () => true);
  const { user, field } = await open(save);
  await user.keyboard("ab");
  await user.click(screen.getByRole("button", { name: "Elsewhere" }));
  expect(screen.getByRole("alert")).toHaveTextContent("Too short");
  expect(field).toHaveAccessibleDescription("Too short");
  await user.type(field, "c");
  await user.click(screen.getByRole("button", { name: "Elsewhere" }));
  expect(save).toHaveBeenCalledExactlyOnceWith("abc", "Hall");
});

test("conflicting text needs a second Enter to overwrite", async () => {
  const save = vi.fn(async (_text: string, seen: string) => seen === "Theirs");
  const { user, field } = await open(save);
  await user.keyboard("Mine");
  await user.click(screen.getByRole("button", { name: "Colleague" }));
  expect(screen.getByRole("alert")).toHaveTextContent("Someone else changed this to “Theirs”.");
  await user.click(screen.getByRole("button", { name: "Elsewhere" }));
  expect(save).not.toHaveBeenCalled();
  expect(field).toHaveValue("Mine");
  await user.type(field, "{Enter}");
  expect(save).toHaveBeenCalledExactlyOnceWith("Mine", "Theirs");
  expect(screen.queryByRole("textbox")).not.toBeInTheDocument();
});

test("failed save keeps the text", async () => {
  const { user, field } = await open(() => Promise.reject(new Error("no")));
  await user.keyboard("Two halls{Enter}");
  expect(field).toHaveValue("Two halls");
});
