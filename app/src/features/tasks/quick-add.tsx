import { useId, useState } from "react";
import { cn } from "@/lib/cn";
import { titleFaultOf } from "@/lib/titles";
import { titleOnly, useCreateTask } from "./mutations";

interface QuickAddProps {
  planId: string;
  priority: { id: string; title: string };
}

/** A line that adds a task by its title. It keeps the focus, so that several can be typed one after the other. */
export function QuickAdd({ planId, priority }: QuickAddProps) {
  const { mutateAsync: create, isPending } = useCreateTask(planId);
  const [text, setText] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const faultId = useId();
  async function add() {
    const title = text.trim();
    if (isPending || title === "") return;
    const wrong = titleFaultOf(title, "Focus Area");
    setFault(wrong);
    if (wrong) return;
    // What was typed stays when it could not be saved, which a toast says.
    const saved = await create({ priorityId: priority.id, values: titleOnly(title) }).catch(() => false);
    if (saved) setText("");
  }

  return (
    <form
      className="min-w-40 grow"
      onSubmit={(event) => {
        event.preventDefault();
        void add();
      }}
    >
      <input
        dir="auto"
        autoComplete="off"
        enterKeyHint="done"
        placeholder="Add a task…"
        aria-label={`New task in ${priority.title}, Enter adds it`}
        aria-invalid={fault !== null}
        aria-describedby={fault ? faultId : undefined}
        readOnly={isPending}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setFault(null);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          setText("");
          setFault(null);
        }}
        className={cn(
          "h-11 w-full min-w-0 rounded-md border border-transparent bg-transparent px-2 text-base placeholder:text-muted-foreground hover:border-input focus-visible:border-input md:h-9 md:text-sm",
          isPending && "opacity-55",
        )}
      />
      {fault && (
        <p id={faultId} role="alert" className="px-2 pt-1 text-destructive text-xs">
          {fault}
        </p>
      )}
    </form>
  );
}
