#!/usr/bin/env python3
"""Holds docs/json.md to what the programs print: every key is described, in its place, and none is that does not occur.

usage: json_keys.py --bin DIR
"""
import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

INPUTS = 'tests/golden/tftf/inputs/'
SAMPLE = 'docs/sample/qwen3-tiny-fp8'
EXPERTS = 'tests/golden/experts/models/mixtral-v4'
LINT_CASES = 'tests/golden/safetensors/cases/'
GRAFT = 'tests/golden/experts/models/'
MERGE = ['merge-lora', '-b', INPUTS + 'base_f32', '-a', INPUTS + 'ad_basic', '-o', 'OUT']
CASES = {
    'error': [['tftf', 'info', 'not-there'], ['tftf', *MERGE[:4], INPUTS + 'ad_badshape', '-o', 'OUT']],
    'info': [['tftf', 'info', EXPERTS], ['tftf', 'info', SAMPLE], ['tftf', 'info', INPUTS + 'ad_basic']],
    'lint': [['tftf-lint', SAMPLE], ['tftf-lint', INPUTS + 'ad_badshape'], ['tftf-lint', INPUTS + 'ad_basic'],
             ['tftf-lint', LINT_CASES], ['tftf-lint', SAMPLE, INPUTS + 'ad_badshape'],
             ['tftf-lint', '--baseline', 'BASELINE', 'LINKS'], ['tftf-lint', SAMPLE, 'LINKS']],
    'account': [['tftf', 'convert', '-i', EXPERTS, '-o', 'OUT', '--to', 'transformers-5', '--dry-run'],
                ['tftf', 'dequant-fp8', '-i', SAMPLE, '-o', 'OUT'], ['tftf', *MERGE, '--dry-run'],
                ['tftf', 'adapter', 'convert', '-i', 'tests/golden/adapters/inputs/kohya_dora.safetensors', '--to', 'peft',
                 '-o', 'OUT'],
                ['tftf', 'adapter', 'resize', '-i', 'tests/golden/adapters/inputs/resize_f32.safetensors', '--rank', '2',
                 '-o', 'OUT'],
                ['tftf', 'passthrough', '-i', 'LARGE', '-o', 'OUT', '--dtype', 'float16'],
                ['tftf', 'graft', '-i', GRAFT + 'graft-tied', '--from', GRAFT + 'qwen3_moe-v4', '--missing', '-o', 'OUT']],
}
# Values of any shape: what stands below them is not described.
OPAQUE = {'config[].before', 'config[].after', 'issues.messages[].values.*'}


def described(text):
    """Section -> its keys in order."""
    sections = {}
    for part in re.split(r'^## ', text, flags=re.M)[1:]:
        name, body = part.split('\n', 1)
        sections[name.strip()] = re.findall(r'^\| `([^`]+)` \|', body, flags=re.M)
    return sections


def write_large(path):
    """A tensor whose values are no finite ones in float16."""
    header = json.dumps({'a': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]}}).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(header)) + header + struct.pack('<f', 1e6))


def write_links(folder):
    """A folder with a link to nothing, and a baseline that knows of a finding which is not there."""
    os.mkdir(folder)
    os.symlink('nothing', folder + '/model.safetensors')
    with open(folder + '/config.json', 'w', encoding='utf-8') as file:
        file.write('{"model_type": "llama"}')
    entry = {'file': folder + '/config.json', 'rule': 'CF001', 'subject': 'x'}
    with open(folder + '.json', 'w', encoding='utf-8') as file:
        json.dump({'baseline': 1, 'findings': [entry]}, file)


class Walk:
    def __init__(self, keys):
        self.order = {key: i for i, key in enumerate(keys)}
        self.seen = set()
        self.faults = set()

    def value(self, value, path):
        if path in OPAQUE:
            return
        if isinstance(value, list):
            for element in value:
                self.value(element, path + '[]')
        elif isinstance(value, dict):
            self.members(value, path + '.' if path else '')

    def members(self, members, prefix):
        last = -1
        for name, value in members.items():
            key = prefix + name
            if key not in self.order:
                key = prefix + '*'
            if key not in self.order:
                self.faults.add(f'{prefix}{name} is not described')
                continue
            if not key.endswith('*') and self.order[key] < last:
                self.faults.add(f'{key} comes earlier than described')
            last = max(last, self.order[key])
            self.seen.add(key)
            self.value(value, key)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--bin', required=True)
    bin_dir = parser.parse_args().bin
    sections = described(open('docs/json.md', encoding='utf-8').read())
    failed = 0
    for section, commands in CASES.items():
        walk = Walk(sections.get(section, []))
        for program, *arguments in commands:
            with tempfile.TemporaryDirectory() as folder:
                places = {'OUT': folder + '/out', 'LARGE': folder + '/large.safetensors'}
                places.update(LINKS=folder + '/links', BASELINE=folder + '/links.json')
                write_large(places['LARGE'])
                write_links(places['LINKS'])
                arguments = [places.get(argument, argument) for argument in arguments]
                run = subprocess.run([f'{bin_dir}/{program}', *arguments, '--json', '--no-progress'], capture_output=True, text=True)
            walk.value(json.loads(run.stdout), '')
        faults = sorted(walk.faults) + [f'{key} never occurs' for key in walk.order if key not in walk.seen]
        for fault in faults:
            print(f'docs/json.md, {section}: {fault}', file=sys.stderr)
        failed += bool(faults)
    print(f'{len(CASES) - failed} passed, {failed} failed')
    return failed > 0


sys.exit(main())
