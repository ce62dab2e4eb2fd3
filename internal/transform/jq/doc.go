// Package jq evaluates jq over messages: filters, transforms, rules, keys and
// the expressions inside templates are all Programs.
//
// In a program . is the body (the parsed JSON, or the body as a string where
// it is not JSON) and $msg holds the other fields:
//
//	id, source, key, content_type   strings
//	time                            RFC 3339 with nanoseconds, UTC
//	headers                         an object of arrays of strings, names in lower case
//	attributes                      what the relay recorded
//	path, query, method             of the request, for a message that came by HTTP
//
// A program reads nothing else: no environment, no module, no further input,
// no debug output; halt is refused. It has the clock (now, localtime).
//
// # Numbers
//
// A number that a program only moves keeps its digits. Arithmetic works on
// 64-bit integers, on integers of any length, and on float64 for the rest.
//
// # Bounds
//
// A program that runs away is cut, with an error that wraps ErrLimit. Time and
// steps are looked at between the engine's steps (MaxTime, MaxStall, MaxSteps). One
// step of the engine is a native function, which nothing can interrupt, so
// those whose cost is not in proportion to what they are given are checked
// before they run: text times a number, join, add, transpose, the difference
// and the containment of arrays, places far behind the end of an array, text
// turned into a number. What + and * and templates in strings build is counted
// (MaxText for one value, MaxBuilt for an evaluation). A value that holds
// itself many times over (reduce range(99) as $i (1; [., .])) takes no memory,
// but its text would never end: whatever walks a whole value weighs it first
// (MaxValue), and so does the encoder of the result (MaxOutput).
//
// Regular expressions have functions of our own in the place of the engine's:
// they find the same matches in one pass, count them before they are kept
// (MaxMatches), and look at the clock between two. One look through a text is
// bounded by the text's length times the expression's size (MaxMatching).
//
// What is left to native functions is in proportion to their input.
package jq
