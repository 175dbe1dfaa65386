// Package listedkinds answers "which objects exist of kinds listed by a ConfigMap, and is the answer known now?"
//
// [List] follows the ConfigMap, on every replica. [Watches] watch the kinds as long as the kinds are listed and
// installed. Both may change while the manager runs. The caller decides about actions while a kind is unknown: "no such
// object" and "unknown" are two answers.
package listedkinds
