import type { Editor } from "@tiptap/core";
import { Bold } from "@tiptap/extension-bold";
import { Document } from "@tiptap/extension-document";
import { HardBreak } from "@tiptap/extension-hard-break";
import { Italic } from "@tiptap/extension-italic";
import { BulletList, ListItem, ListKeymap, OrderedList } from "@tiptap/extension-list";
import { Paragraph } from "@tiptap/extension-paragraph";
import { Text } from "@tiptap/extension-text";
import { Placeholder, UndoRedo } from "@tiptap/extensions";
import { EditorContent, useEditor, useEditorState } from "@tiptap/react";
import { BoldIcon, ItalicIcon, ListIcon, ListOrderedIcon } from "lucide-react";
import { Toggle, Toolbar } from "radix-ui";
import { useEffect, useLayoutEffect, useRef } from "react";
import { cn } from "@/lib/cn";
import type { RichTextEditorProps } from "./rich-text-editor";

const buttons = [
  {
    name: "bold",
    label: "Bold",
    Icon: BoldIcon,
    toggle: (editor: Editor) => editor.chain().focus().toggleBold().run(),
  },
  {
    name: "italic",
    label: "Italic",
    Icon: ItalicIcon,
    toggle: (editor: Editor) => editor.chain().focus().toggleItalic().run(),
  },
  {
    name: "bulletList",
    label: "Bulleted list",
    Icon: ListIcon,
    toggle: (editor: Editor) => editor.chain().focus().toggleBulletList().run(),
  },
  {
    name: "orderedList",
    label: "Numbered list",
    Icon: ListOrderedIcon,
    toggle: (editor: Editor) => editor.chain().focus().toggleOrderedList().run(),
  },
];

export function RichTextEditorCore({
  value,
  onChange,
  onBlur,
  placeholder = "",
  disabled = false,
  id,
  "aria-invalid": invalid,
  "aria-describedby": describedBy,
  "aria-required": required,
}: RichTextEditorProps) {
  const attributes = {
    role: "textbox",
    "aria-multiline": "true",
    dir: "auto",
    class: "rich-text",
    ...(id && { id, "aria-labelledby": `${id}-label` }),
    ...(describedBy && { "aria-describedby": describedBy }),
    ...(invalid && { "aria-invalid": "true" }),
    ...(required && { "aria-required": "true" }),
  };
  /** The values that the editor reported and the form has not passed back yet, after the last one that it has. */
  const reported = useRef([value]);
  const editor = useEditor({
    extensions: [
      Document,
      Paragraph,
      Text,
      Bold,
      Italic,
      BulletList,
      OrderedList,
      ListItem,
      ListKeymap,
      HardBreak,
      UndoRedo,
      Placeholder.configure({ placeholder }),
    ],
    content: value,
    editable: !disabled,
    // Ours are in styles.css.
    injectCSS: false,
    editorProps: {
      attributes,
      handleKeyDown: (view, event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return false;
        view.dom.closest("form")?.requestSubmit();
        return true;
      },
    },
    onUpdate: ({ editor }) => {
      const html = editor.isEmpty ? "" : editor.getHTML();
      reported.current.push(html);
      onChange(html);
    },
    ...(onBlur && { onBlur }),
  });

  // A value that the editor did not report is another version of the row that the form has loaded. One that it did report
  // may be older than its text: a form that renders late must not undo what was typed meanwhile. In the same task as the
  // render, so that nothing is typed between the two and lost.
  useLayoutEffect(() => {
    const index = reported.current.lastIndexOf(value);
    if (index >= 0) {
      reported.current.splice(0, index);
      return;
    }
    reported.current = [value];
    editor.commands.setContent(value, { emitUpdate: false });
  }, [editor, value]);

  useEffect(() => {
    if (editor.isEditable === disabled) editor.setEditable(!disabled, false);
  }, [editor, disabled]);

  const active = useEditorState({
    editor,
    selector: ({ editor }) => buttons.map(({ name }) => editor.isActive(name)),
  });

  return (
    <div
      className={cn(
        "overflow-hidden rounded-md border border-input bg-surface-raised shadow-xs focus-within:border-ring has-[.tiptap:focus]:outline-2 has-[.tiptap:focus]:outline-ring",
        invalid && "border-destructive has-[.tiptap:focus]:outline-destructive",
        disabled && "opacity-55",
      )}
    >
      <Toolbar.Root aria-label="Formatting" className="flex gap-1 border-b bg-surface p-1">
        {buttons.map(({ name, label, Icon, toggle }, index) => (
          <Toolbar.Button asChild key={name} disabled={disabled}>
            <Toggle.Root
              pressed={active[index] ?? false}
              onPressedChange={() => toggle(editor)}
              aria-label={label}
              title={label}
              className="grid size-9 place-items-center rounded-md text-muted-foreground transition-colors hover:bg-muted hover:text-foreground data-[state=on]:bg-primary-soft data-[state=on]:text-primary-soft-foreground max-md:size-11"
            >
              <Icon className="size-4" aria-hidden />
            </Toggle.Root>
          </Toolbar.Button>
        ))}
      </Toolbar.Root>
      <EditorContent editor={editor} className="rich-text-area text-base md:text-sm" />
    </div>
  );
}
