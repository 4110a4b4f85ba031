import { type ComponentType, type ReactNode, useCallback, useEffect, useState } from "react";
import { ErrorState } from "@/components/page-state";
import { useOnline } from "@/hooks/use-online";
import { toast } from "@/lib/toast";

const advice = "Check your connection, then try again.";
const extraRetryMs = 5_000;

/** Fetches a component once for all that show it. Code that could not be fetched is tried again with the connection. */
function lateComponent<Props extends object>(load: () => Promise<ComponentType<Props>>) {
  let loaded: ComponentType<Props> | null = null;

  // biome-ignore lint/correctness/noComponentHookFactories: made once for a module, not for a render
  return function useLateComponent() {
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

    return { Part, failed, retry: useCallback(() => setFailed(false), []) };
  };
}

/**
 * A part of a screen whose code is fetched when it is first shown, with `waiting` in its place until it is there.
 * A part that cannot be fetched says so and can be tried again, where `React.lazy` gives up the whole screen.
 */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>, waiting: ReactNode) {
  const useLateComponent = lateComponent(load);

  // biome-ignore lint/correctness/noComponentHookFactories: made once for a module, not for a render
  return function LazyPart(props: Props) {
    const { Part, failed, retry } = useLateComponent();
    if (Part) return <Part {...props} />;
    if (!failed) return waiting;
    return <ErrorState size="small" title="This part could not be loaded" description={advice} onRetry={retry} />;
  };
}

/** As `lazyPart`, for what a screen can do without: where it cannot be fetched `waiting` stays, and it is tried again. */
export function lazyExtra<Props extends object>(load: () => Promise<ComponentType<Props>>, waiting: ReactNode = null) {
  const useLateComponent = lateComponent(load);

  // biome-ignore lint/correctness/noComponentHookFactories: made once for a module, not for a render
  return function LazyExtra(props: Props) {
    const { Part, failed, retry } = useLateComponent();
    useEffect(() => {
      if (!failed) return;
      const timer = setTimeout(retry, extraRetryMs);
      return () => clearTimeout(timer);
    }, [failed, retry]);
    return Part ? <Part {...props} /> : waiting;
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
          toast.error("This could not be opened", { description: advice });
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
