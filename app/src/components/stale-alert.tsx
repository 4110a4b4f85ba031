import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";

interface StaleAlertProps {
  onLoadTheirs: () => void;
  onKeepMine: () => void;
}

/** Another person saved what is being edited here. */
export function StaleAlert({ onLoadTheirs, onKeepMine }: StaleAlertProps) {
  return (
    <Alert
      data-conflict
      tabIndex={-1}
      role="alert"
      tone="warning"
      title="Another administrator has changed this since you opened it"
      action={
        <>
          <Button variant="secondary" size="small" onClick={onLoadTheirs}>
            Load their version
          </Button>
          <Button variant="secondary" size="small" onClick={onKeepMine}>
            Keep mine
          </Button>
        </>
      }
    >
      <p>Load their version, and what you typed is gone; or keep yours, and saving replaces theirs.</p>
    </Alert>
  );
}
