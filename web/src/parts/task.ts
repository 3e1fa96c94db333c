// Something that the worker computes for a component: started, cancelled with it, and shown when it is there.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Progress } from 'tftf';
import type { CallOptions } from '../engine/engine';
import type { Failure } from '../engine/messages';
import { failureOf } from '../inputs';

export type Task<T> = { state: 'idle' } | { state: 'running'; progress: Progress | null } | { state: 'done'; result: T } | { state: 'failed'; failure: Failure };

export interface TaskControl<T> {
  task: Task<T>;
  start: () => void;
  cancel: () => void;
}

// Runs again whenever `key` changes, by itself when `automatic`.
export function useTask<T>(key: string, automatic: boolean, work: (options: CallOptions) => Promise<T>): TaskControl<T> {
  const [task, setTask] = useState<Task<T>>({ state: automatic ? 'running' : 'idle', progress: null });
  const abort = useRef<AbortController | null>(null);
  const start = () => {
    abort.current?.abort();
    const mine = new AbortController();
    abort.current = mine;
    const show = (next: Task<T>) => {
      if (abort.current === mine) setTask(next);
    };
    show({ state: 'running', progress: null });
    work({ signal: mine.signal, onProgress: (progress) => show({ state: 'running', progress }) }).then(
      (result) => show({ state: 'done', result }),
      (error: unknown) => {
        const failure = failureOf(error);
        show(failure.code === 'interrupted' ? { state: 'idle' } : { state: 'failed', failure });
      },
    );
  };
  useEffect(() => {
    if (automatic) start();
    else setTask({ state: 'idle' });
    return () => {
      const mine = abort.current;
      abort.current = null;
      mine?.abort();
    };
  }, [key]);
  return { task, start, cancel: () => abort.current?.abort() };
}
