import { signal, type Signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import type { LintDocument, LintMessage, ReportFormat, RuleInfo, Severity } from 'tftf';
import { bytesText, countText, nameText, plural } from '../format';
import { cancelCheck, engine, inputs, runCheck, tensorIndex, type Input } from '../inputs';
import { FailureNote } from '../parts/failure_note';
import { Icon, SeverityIcon, severityWords } from '../parts/icons';
import { ProgressBar } from '../parts/progress_bar';
import { go, route } from '../route';
import { saveText } from '../saving';

interface Group {
  rule: string;
  name: string;
  severity: Severity;
  messages: LintMessage[];
}

function groupsOf(document: LintDocument): Group[] {
  const groups = new Map<string, Group>();
  for (const message of document.issues.messages) {
    const key = `${message.severity} ${message.rule}`;
    const group = groups.get(key);
    if (group) group.messages.push(message);
    else groups.set(key, { rule: message.rule, name: message.name, severity: message.severity, messages: [message] });
  }
  return [...groups.values()].sort((a, b) => a.severity - b.severity || (a.rule < b.rule ? -1 : 1));
}

const hiddenSeverities = new WeakMap<Input, Signal<ReadonlySet<number>>>();
function hiddenOf(input: Input): Signal<ReadonlySet<number>> {
  let found = hiddenSeverities.get(input);
  if (!found) {
    found = signal<ReadonlySet<number>>(new Set());
    hiddenSeverities.set(input, found);
  }
  return found;
}

function Counts({ input, document }: { input: Input; document: LintDocument }) {
  const hidden = hiddenOf(input);
  const { numErrors, numWarnings, numInfos, numHints } = document.issues;
  return (
    <div class="counts" role="group" aria-label="Which findings to show">
      {[numErrors, numWarnings, numInfos, numHints].map((count, i) => (
        <button
          key={i}
          type="button"
          class={`count count-${severityWords[i]}`}
          aria-pressed={!hidden.value.has(i)}
          disabled={Number(count) === 0}
          onClick={() => {
            const next = new Set(hidden.value);
            if (!next.delete(i)) next.add(i);
            hidden.value = next;
          }}
        >
          <SeverityIcon severity={i as Severity} />
          <strong>{countText(count)}</strong> {severityWords[i]}
          {Number(count) === 1 ? '' : 's'}
        </button>
      ))}
    </div>
  );
}

const plain = (value: unknown): string => (Array.isArray(value) ? value.map(String).join(', ') : typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value));

function Finding({ input, message }: { input: Input; message: LintMessage }) {
  const tensor = message.subject === null ? -1 : tensorIndex(input, message.subject);
  const { expected, found } = message.values;
  const prefix = `${message.file}: `;
  const said = message.message.startsWith(prefix) ? message.message.slice(prefix.length) : message.message;
  const sentence = /^[a-z]+ /.test(said) ? said.charAt(0).toUpperCase() + said.slice(1) : said;
  return (
    <li class="finding">
      <p>
        <bdi>{nameText(sentence, 1200)}</bdi>
      </p>
      {(expected !== undefined || found !== undefined) && (
        <dl class="expected">
          {expected !== undefined && (
            <div>
              <dt>Expected</dt>
              <dd>
                <bdi>{nameText(plain(expected), 200)}</bdi>
              </dd>
            </div>
          )}
          {found !== undefined && (
            <div>
              <dt>Found</dt>
              <dd>
                <bdi>{nameText(plain(found), 200)}</bdi>
              </dd>
            </div>
          )}
        </dl>
      )}
      <p class="finding-place muted">
        <bdi>{message.file === '.' ? 'the folder' : nameText(message.file, 160)}</bdi>
        {message.offset !== null && <span>byte {countText(message.offset)}</span>}
        {tensor >= 0 && (
          <button type="button" class="link" onClick={() => go('tensors', message.subject!)}>
            Show the tensor
          </button>
        )}
      </p>
    </li>
  );
}

// The core's line in the page's words.
function rulesText(account: string): string {
  const match = /^(\d+ of \d+ rules checked)(?: \((?:(\d+) more need --data)?(?:, )?(?:(\d+) (?:more need )?--base)?\))?/.exec(account);
  if (!match) return account;
  const more = [match[2] && `${match[2]} more look at the values`, match[3] && `${match[3]} at an adapter’s base model`].filter(Boolean);
  return `${match[1]}${more.length > 0 ? `; ${more.join(', ')}` : ''}.`;
}

const shownAtFirst = 10;

function RuleGroup({ input, group, rule }: { input: Input; group: Group; rule: RuleInfo | undefined }) {
  const [all, setAll] = useState(false);
  const shown = all ? group.messages : group.messages.slice(0, shownAtFirst);
  const open = route.value.detail === group.rule || group.severity < 2;
  return (
    <details class={`rule rule-${severityWords[group.severity]}`} open={open} id={`rule-${group.rule}`}>
      <summary>
        <SeverityIcon severity={group.severity} />
        <span class="rule-id">{group.rule}</span>
        <span class="rule-name">{group.name.toLowerCase().replace(/_/g, ' ')}</span>
        <span class="times">{group.messages.length > 1 ? `×${countText(group.messages.length)}` : ''}</span>
      </summary>
      {rule && (
        <div class="rule-text">
          <p>{String(rule.checks ?? '')}</p>
          {typeof rule.peers === 'string' && rule.peers !== '' && <p class="muted">Readers: {rule.peers}</p>}
        </div>
      )}
      <ul class="findings">
        {shown.map((message, i) => (
          <Finding key={i} input={input} message={message} />
        ))}
      </ul>
      {group.messages.length > shownAtFirst && (
        <button type="button" class="button quiet" onClick={() => setAll(!all)}>
          {all ? 'Show fewer' : `Show all ${countText(group.messages.length)}`}
        </button>
      )}
    </details>
  );
}

const formats: { format: ReportFormat; title: string; suffix: string; type: string }[] = [
  { format: 'text', title: 'Text', suffix: 'txt', type: 'text/plain' },
  { format: 'json', title: 'JSON', suffix: 'json', type: 'application/json' },
  { format: 'sarif', title: 'SARIF', suffix: 'sarif', type: 'application/sarif+json' },
];

function SaveReport({ input }: { input: Input }) {
  const [copied, setCopied] = useState(false);
  const stem = input.label.replace(/\.safetensors$/, '').replace(/[^\w.-]+/g, '_').slice(0, 80) || 'report';
  return (
    <div class="save-report" role="group" aria-label="Save the report">
      <button
        type="button"
        class="button quiet"
        onClick={() =>
          void engine
            .report(input.id, 'text')
            .then((text) => navigator.clipboard.writeText(text))
            .then(() => setCopied(true))
            .catch(() => setCopied(false))
        }
      >
        <Icon name={copied ? 'check' : 'copy'} /> {copied ? 'Copied' : 'Copy'}
      </button>
      {formats.map(({ format, title, suffix, type }) => (
        <button key={format} type="button" class="button quiet" onClick={() => void engine.report(input.id, format).then((text) => saveText(`${stem}-lint.${suffix}`, text, type))}>
          <Icon name="down" /> {title}
        </button>
      ))}
    </div>
  );
}

export function CheckPlace({ input }: { input: Input }) {
  const check = input.check.value;
  if (check.state === 'failed') {
    return (
      <div class="check-place">
        <h2>The check could not be finished</h2>
        <FailureNote failure={check.failure.code === 'interrupted' ? { ...check.failure, message: 'It was cancelled.' } : check.failure} />
        <button type="button" class="button" onClick={() => void runCheck(input, false)}>
          Check again
        </button>
      </div>
    );
  }
  if (check.state === 'running') {
    const { progress } = check;
    return (
      <div class="check-place">
        <h2>Checking</h2>
        <ProgressBar label="Checking" done={progress?.done ?? null} total={progress?.total ?? 0} />
        <p class="muted">
          {progress?.stage === 'reading' ? `${bytesText(progress.done)} of ${bytesText(progress.total)} read` : 'Reading headers and configuration'}{' '}
          <button type="button" class="link" onClick={() => cancelCheck(input)}>
            Cancel
          </button>
        </p>
      </div>
    );
  }
  const groups = groupsOf(check.document);
  const hidden = hiddenOf(input).value;
  const others = inputs.value.filter((other) => other !== input && other.summary.kind === 'checkpoint');
  const bad = Number(check.document.issues.numErrors) + Number(check.document.issues.numWarnings);
  return (
    <div class="check-place">
      <div class="section-head">
        <h2>{bad === 0 ? 'No problems found' : `${plural(bad, 'problem')} found`}</h2>
        <SaveReport input={input} />
      </div>
      <p class="muted">{rulesText(check.account)}</p>
      <Counts input={input} document={check.document} />
      {input.summary.kind === 'adapter' && others.length > 0 && (
        <label class="check">
          Check against the base model
          <select value={check.base ?? ''} onChange={(event) => void runCheck(input, check.data, event.currentTarget.value === '' ? null : Number(event.currentTarget.value))}>
            <option value="">none</option>
            {others.map(({ id, label }) => (
              <option key={id} value={id}>
                {nameText(label, 80)}
              </option>
            ))}
          </select>
        </label>
      )}
      {!check.data && input.summary.dataBytes > 0 && (
        <p class="data-pass">
          <button type="button" class="button" onClick={() => void runCheck(input, true, check.base)}>
            Check the values too
          </button>
          <span class="muted">reads all {bytesText(input.summary.dataBytes)}: NaN, infinities, scales that are wrong</span>
        </p>
      )}
      {check.document.issues.truncated && <p class="tone-warning">There are more findings than are listed: at most 100 of one rule in one file are.</p>}
      <div class="rules">
        {groups
          .filter((group) => !hidden.has(group.severity))
          .map((group) => (
            <RuleGroup key={`${group.severity} ${group.rule}`} input={input} group={group} rule={check.rules.get(group.rule)} />
          ))}
      </div>
    </div>
  );
}
