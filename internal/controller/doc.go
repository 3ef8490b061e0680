// SPDX-License-Identifier: Apache-2.0

// Package controller holds the controllers of Function, Trigger and FunctionJob. Each pass reads into a scope, runs phases
// in order, computes the status from the scope and writes it once. Decisions are pure functions in package plan, and the
// objects that are made come from the pure builders in package resources.
package controller
