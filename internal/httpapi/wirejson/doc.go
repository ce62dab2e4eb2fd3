// Package wirejson reads the JSON of requests: once, strictly, and with the
// place of everything that is wrong.
//
// Read hands a Reader to a function that takes the document member by member.
// What is no JSON ends it with an *Error, where and why. What is JSON but not
// what was asked for (an unknown member, a wrong type, a number out of bounds)
// is a Problem with its JSON pointer, and reading goes on, so that a caller is
// told everything at once.
//
// A value that only passes through, a payload or a result, is a part of the
// document's own bytes: it is checked and never decoded.
package wirejson
