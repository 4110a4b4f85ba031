import { useMutation } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { SubmitButton } from "@/components/submit-button";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";

const pauseSeconds = 30;

/** Sends a mail another time, which is possible 30 seconds after the last one. */
export function SendAgain({ send, failed }: { send: () => Promise<unknown>; failed: string }) {
  const [waits, setWaits] = useState(pauseSeconds);
  const again = useMutation({
    mutationFn: send,
    onSuccess: () => setWaits(pauseSeconds),
    onError: (error) => void toast.error(failed, { description: messageOf(error) }),
  });
  useEffect(() => {
    if (waits === 0) return;
    const timer = setTimeout(() => setWaits(waits - 1), 1000);
    return () => clearTimeout(timer);
  }, [waits]);
  return (
    <SubmitButton
      type="button"
      variant="secondary"
      size="small"
      busy={again.isPending}
      busyLabel="Sending..."
      disabled={waits > 0 || again.isPending}
      onClick={() => again.mutate()}
    >
      {waits > 0 ? `Send again in ${waits} s` : "Send again"}
    </SubmitButton>
  );
}
