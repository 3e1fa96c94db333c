import type { PlanView } from '../engine/messages';
import { nameText } from '../format';

const text = (value: unknown): string => (value === null || value === undefined ? 'nothing' : nameText(typeof value === 'string' ? value : JSON.stringify(value), 160));

export function ConfigChanges({ account }: { account: PlanView['account'] }) {
  if (account.config.length === 0) return null;
  return (
    <div class="config-changes">
      <h4>Configuration</h4>
      <ul>
        {account.config.map((change) => (
          <li key={change.file + change.pointer}>
            <span class="muted">{nameText(change.file, 60)}</span> {nameText(change.pointer, 80)}: <del>{text(change.before)}</del> <ins>{text(change.after)}</ins>
          </li>
        ))}
      </ul>
    </div>
  );
}
