import { createContext, useRef, useState } from "react";
import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";

export interface Gone {
  title: string;
  description: string;
}

/** What became of the thing that the dialogs below are about; null while it is there. */
export const GoneContext = createContext<Gone | null>(null);

/** In a form whose thing is gone: what happened, and a way to keep what was typed. */
export function GoneNote({ title, description }: Gone) {
  const note = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<"idle" | "copied" | "refused">("idle");

  async function copy() {
    const form = note.current?.closest("form");
    try {
      await navigator.clipboard.writeText(form ? textOf(form) : "");
      setState("copied");
    } catch {
      setState("refused");
    }
  }

  return (
    <Alert
      ref={note}
      role="alert"
      tone="warning"
      title={title}
      action={
        <Button variant="secondary" size="small" onClick={() => void copy()}>
          {state === "copied" ? "Copied" : "Copy what I typed"}
        </Button>
      }
    >
      <p>{description} What you typed is still here, and cannot be saved: copy it before you close this.</p>
      {state === "refused" && <p role="status">The browser did not let it be copied. Select it in the fields.</p>}
    </Alert>
  );
}

/** The labelled texts of a form, one below the other. */
export function textOf(form: HTMLFormElement) {
  const fields = form.querySelectorAll<HTMLElement>(
    "input:not([type=checkbox]), textarea, select, [contenteditable=true]",
  );
  const texts = [...fields].map((field) => {
    const label = field.id && form.querySelector(`label[for="${CSS.escape(field.id)}"]`)?.textContent?.trim();
    const text =
      field instanceof HTMLSelectElement
        ? field.selectedOptions[0]?.text
        : field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement
          ? field.value
          : [...field.children].map((block) => block.textContent).join("\n");
    return text?.trim() ? `${label ? `${label}: ` : ""}${text.trim()}` : "";
  });
  return texts.filter(Boolean).join("\n");
}
