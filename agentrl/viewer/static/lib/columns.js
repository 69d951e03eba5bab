// The policies of a table: groups of runs, the steps of a run, or chosen ones.

import {h, visible} from './dom.js';
import {join, split} from './names.js';
import {change} from './route.js';

/** What a request for the columns in the URL's `params` has. */
export const asked = ({group, runs}) => {
  const of = split(runs);
  return of.length ? {of} : {group};
};

/**
 * Fields that choose the columns; `evaluations` are those of the route.
 *
 * `keep` are parameters of the page that other columns would make void.
 */
export function columnControls(params, evaluations, keep = {}) {
  const specs = split(params.runs);
  const learnt = [...new Set(evaluations.filter(({step}) => step !== null).map(({run}) => run))];
  const choose = (changes) => change({runs: null, group: null, ...keep, ...changes});
  const steps = specs.length === 1 && learnt.includes(specs[0]);
  const from = steps ? `run ${specs[0]}` : specs.length ? 'chosen' : '';
  return h('div', {class: 'fields'},
      h('label', {}, 'Columns ', h('select', {dataset: {key: 'columns'},
        onchange: ({target: {value}}) => choose(value.startsWith('run ') ? {runs: join([value.slice(4)])} : {})},
      h('option', {value: '', selected: !from}, 'groups of runs, evaluations'),
      from === 'chosen' && h('option', {value: 'chosen', selected: true}, 'chosen ones'),
      learnt.map((run) => h('option', {value: `run ${run}`, selected: from === `run ${run}`},
          visible(`steps of ${run}`))))),
      !from && h('label', {}, 'Group by ', h('input', {value: params.group || '', dataset: {key: 'group'},
        placeholder: 'all but the seed', title: 'Fields of configs with commas between: horizon.kind,algo.name',
        onchange: ({target: {value}}) => choose({group: value.replace(/\s/g, '') || null})})),
      !steps && specs.map((spec) => h('span', {class: 'chip'}, visible(spec), h('button', {type: 'button',
        class: 'quiet', 'aria-label': `Leave out ${visible(spec)}`,
        onclick: () => choose({runs: join(specs.filter((each) => each !== spec)) || null})}, '×'))),
      h('select', {'aria-label': 'Add an evaluation', dataset: {key: 'add'},
        onchange: ({target: {value}}) => choose({runs: join([...steps ? [] : specs, value])})},
      h('option', {value: ''}, specs.length ? 'Add an evaluation' : 'Choose evaluations'),
      evaluations.filter(({spec}) => !specs.includes(spec)).map(({spec, run, label}) =>
        h('option', {value: spec}, visible(`${run === '.' ? '' : `${run} · `}${label}`)))));
}
