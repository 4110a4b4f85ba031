import type { ComponentProps } from "react";
import { Button } from "@/components/ui/button";
import { Spinner } from "@/components/ui/spinner";

interface SubmitButtonProps extends ComponentProps<typeof Button> {
  busy: boolean;
  /** What the button says while it works. */
  busyLabel: string;
}

export function SubmitButton({ busy, busyLabel, children, ...props }: SubmitButtonProps) {
  return (
    <Button type="submit" aria-busy={busy} {...props}>
      {busy && <Spinner />}
      {busy ? busyLabel : children}
    </Button>
  );
}
