import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { FormField } from "./form-field";
import { Input } from "./ui/input";

test("field without hint or error has no aria-describedby", () => {
  render(
    <FormField label="Title">
      <Input />
    </FormField>,
  );
  expect(screen.getByLabelText("Title")).not.toHaveAttribute("aria-describedby");
  expect(screen.getByLabelText("Title")).toBeValid();
});

test("error replaces the hint visibly and in ARIA", () => {
  const { rerender } = render(
    <FormField label="Title" hint="Short and clear">
      <Input />
    </FormField>,
  );
  expect(screen.getByLabelText("Title")).toHaveAccessibleDescription("Short and clear");
  rerender(
    <FormField label="Title" hint="Short and clear" error="Required">
      <Input />
    </FormField>,
  );
  expect(screen.getByLabelText("Title")).toHaveAccessibleDescription("Required");
  expect(screen.getByLabelText("Title")).toBeInvalid();
});
