import { useEffect, useState } from "react";
import { type DefaultValues, type FieldValues, type Resolver, useForm } from "react-hook-form";
import { useRowBase } from "@/hooks/use-row-base";

interface Options<Row, Input extends FieldValues, Values> {
  /** The newest that is known; null while there is no row. */
  row: Row;
  resolver: Resolver<Input, unknown, Values>;
  /** What the fields say of a row. */
  inputOf: (row: Row) => Input;
  /**
   * Replaces that version of the row, and no other. `false` when there is a newer one; rejects when it failed, having
   * told the person. What was typed stays in both cases.
   */
  save: (change: { base: Row; values: Values }) => Promise<unknown>;
  /** Something beside the fields was changed, a picture say. */
  alsoDirty?: boolean;
}

/**
 * A form over one row that others may save as well. It knows the version that it started from, so that saving says which
 * one it replaces. A newer one is taken over while nothing was typed; after that the person decides (`stale-alert`, or
 * `conflict-note`, which shows both).
 */
export function useRowForm<Row extends { updated_at: string } | null, Input extends FieldValues, Values>({
  row,
  resolver,
  inputOf,
  save,
  alsoDirty = false,
}: Options<Row, Input, Values>) {
  const form = useForm<Input, unknown, Values>({ resolver, defaultValues: inputOf(row) as DefaultValues<Input> });
  const { isDirty: fieldsDirty, isSubmitting } = form.formState;
  const isDirty = fieldsDirty || alsoDirty;
  const { base, isStale, loadTheirs, keepMine } = useRowBase({
    fresh: row,
    read: inputOf,
    isDirty,
    isBusy: isSubmitting,
    load: (theirs) => form.reset(inputOf(theirs)),
  });
  const [refused, setRefused] = useState<HTMLElement | null>(null);
  const submit = form.handleSubmit(async (values, event) => {
    const element = event?.target instanceof HTMLElement ? event.target : null;
    // Two versions, and a choice that is still to be made.
    if (isStale) return setRefused(element);
    const typed = form.getValues();
    let failed = false;
    const saved = await save({ base, values }).catch(() => {
      failed = true;
      return false;
    });
    if (saved !== false) form.reset(typed);
    // Another version came first; it is on its way to this page.
    else if (!failed) setRefused(element);
  });
  useEffect(() => {
    if (!isStale || !refused) return;
    leadToChoice(refused);
    setRefused(null);
  }, [isStale, refused]);

  return {
    ...form,
    /** The version that saving replaces. */
    base,
    submit,
    /** For `DialogForm`. */
    formProps: { onSubmit: (event: React.FormEvent) => void submit(event), busy: isSubmitting, dirty: isDirty },
    /** Another version has come while this one was being edited: what the person can do. */
    conflict: isStale ? { theirs: inputOf(row), onLoadTheirs: loadTheirs, onKeepMine: keepMine } : null,
  };
}

/** To the note of `conflict`, which may be scrolled out of sight. */
function leadToChoice(form: HTMLElement | null) {
  const note = form?.querySelector<HTMLElement>("[data-conflict]");
  note?.scrollIntoView({ block: "nearest" });
  note?.focus({ preventScroll: true });
}
