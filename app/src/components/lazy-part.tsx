import { type ComponentType, type ReactNode, useEffect, useState } from "react";
import { ErrorState } from "@/components/page-state";
import { useOnline } from "@/hooks/use-online";
import { toastError } from "@/lib/toast-later";

const advice = "Check your connection, then try again.";

/**
 * A part of a screen whose code is fetched when it is first shown, with `waiting` in its place until it is there.
 * A part that cannot be fetched says so and can be tried again, where `React.lazy` gives up the whole screen.
 */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>, waiting: ReactNode) {
  let loaded: ComponentType<Props> | null = null;

  // biome-ignore lint/correctness/noComponentHookFactories: made once for a module, not for a render
  return function LazyPart(props: Props) {
    const [Part, setPart] = useState(() => loaded);
    const [failed, setFailed] = useState(false);
    const online = useOnline();

    useEffect(() => {
      if (online) setFailed(false);
    }, [online]);

    useEffect(() => {
      if (Part || failed) return;
      load().then(
        (part) => {
          loaded = part;
          setPart(() => part);
        },
        () => setFailed(true),
      );
    }, [Part, failed]);

    if (Part) return <Part {...props} />;
    if (!failed) return waiting;
    return (
      <ErrorState
        size="small"
        title="This part could not be loaded"
        description={advice}
        onRetry={() => setFailed(false)}
      />
    );
  };
}

interface DialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

/** A dialog whose code is fetched when it is first opened. One that cannot be fetched says so; the next press tries again. */
export function lazyDialog<Props extends DialogProps>(load: () => Promise<ComponentType<Props>>) {
  let loaded: ComponentType<Props> | null = null;

  // biome-ignore lint/correctness/noComponentHookFactories: made once for a module, not for a render
  return function LazyDialog(props: Props) {
    const [Dialog, setDialog] = useState(() => loaded);
    const { open, onOpenChange } = props;
    const [opened, setOpened] = useState(open);
    if (open && !opened) setOpened(true);

    useEffect(() => {
      if (!open || Dialog) return;
      let closed = false;
      load().then(
        (dialog) => {
          loaded = dialog;
          setDialog(() => dialog);
        },
        () => {
          if (closed) return;
          onOpenChange(false);
          toastError("This could not be opened", { description: advice });
        },
      );
      return () => {
        closed = true;
      };
    }, [open, Dialog, onOpenChange]);

    // One that closes stays, to fade out.
    return opened && Dialog && <Dialog {...props} />;
  };
}

/** Fetches code ahead of a press that is about to come. Where that fails, the press itself says so. */
export function fetchAhead(load: () => Promise<unknown>) {
  load().catch(() => undefined);
}
