// Package listedkinds answers "which objects are there of kinds that a ConfigMap lists, and may anybody know that now?"
//
// [List] follows the ConfigMap, on every replica. [Watches] watch the kinds for as long as they are listed and
// installed, both of which may change while the manager runs. What is to be done while a kind is not known is up to the
// caller: "there is none" and "nobody can say" are two answers.
package listedkinds
